"""Transformers built on ``utils.attention``, their data, their training, and their heads."""

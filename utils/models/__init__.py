"""Transformers built on ``utils.attention``, their data and training, and reading their heads."""

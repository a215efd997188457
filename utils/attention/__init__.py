"""The attention that the chapters teach, one module for each way of writing it.

Import from the modules: ``from utils.attention.torch import MultiHeadAttention``. This file imports
nothing, so that a page on NumPy does not load PyTorch or TensorFlow.
"""

"""The attention that the chapters teach, a module for each way of writing it.

``from utils.attention.torch import MultiHeadAttention``. Nothing is imported here, so that a NumPy
page never waits for PyTorch or TensorFlow.
"""

"""Attention and training on several processes."""

from utils.parallel.processes import launch

__all__ = ["launch"]

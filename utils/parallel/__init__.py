"""Attention and training in several processes."""

from utils.parallel.processes import launch

__all__ = ["launch"]

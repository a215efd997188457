"""Attention and training in several processes."""

from .processes import launch

__all__ = ["launch"]

"""Homework: each student gets a different sick program, and hands in a probe that is graded.

``python -m utils.doctor.homework --help``.
"""

from .programs import assignment

__all__ = ["assignment"]

"""Python source: what a definition of a file needs, and a file that holds a function of a notebook.

``reading`` makes a definition out of somebody's file, and runs no more of it than that needs.
``writing`` turns a function, with what it uses, into a file that another process runs.
"""

from .reading import RefusalError, read
from .writing import written

__all__ = ["RefusalError", "read", "written"]

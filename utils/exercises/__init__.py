"""The exercises of the chapters, one module each: ``from utils.exercises.masks import check``.

``_check`` holds what the reader calls, ``_judges`` what the judges of several chapters share. A
file named ``_<chapter>_<what>`` belongs to one chapter, whose own file would be too long with it.
``capstone`` judges a whole file: ``python -m utils.exercises.capstone FILE.py``.
"""

"""Seven milestones of a transformer, judged: ``python -m utils.exercises.capstone FILE.py``.

``milestones`` lists them; ``parts``, ``heads``, ``block``, ``model``, ``training`` and ``writing``
judge; ``steps`` looks at the steps of ``train``, and ``probes`` holds what several judges ask of a
module. ``command`` is the shell's, ``_child`` the process that runs the reader's file.
``solution`` is a right file, and the model on which ``train`` and ``write`` are tried in the
notebook.
"""

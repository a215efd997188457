"""``python -m utils.exercises.capstone FILE.py``."""

from . import command

raise SystemExit(command.main())

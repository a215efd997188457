"""``python -m utils.exercises.capstone FILE.py``."""

from utils.exercises.capstone import command

raise SystemExit(command.main())

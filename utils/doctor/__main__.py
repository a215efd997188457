"""``python -m utils.doctor FILE.py:NAME``."""

from . import command

raise SystemExit(command.main())

"""``python -m utils.doctor FILE.py:NAME``."""

from utils.doctor import command

raise SystemExit(command.main())

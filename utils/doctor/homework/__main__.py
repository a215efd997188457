"""``python -m utils.doctor.homework``: hand out sick programs and grade the probes."""

import contextlib
import sys

from . import command

with contextlib.suppress(AttributeError):
    sys.stdout.reconfigure(errors="replace")  # for names that the terminal cannot show
try:
    print(command.main())
except (OSError, ValueError) as error:
    print(error, file=sys.stderr)
    sys.exit(2)

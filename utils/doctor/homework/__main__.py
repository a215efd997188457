"""``python -m utils.doctor.homework``: hand out sick programs and grade the probes."""

import sys

from utils.doctor.homework import command

try:
    print(command.main())
except (OSError, ValueError) as error:
    print(error, file=sys.stderr)
    sys.exit(2)

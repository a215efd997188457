"""The doctor: says which mistake an attention program holds.

    from utils.doctor import examine
    print(examine(my_attention))

From the shell: ``python -m utils.doctor FILE.py:NAME --help``.
"""

from utils.doctor._examine import (
    examine,
    examine_decoder,
    examine_kernel,
    examine_layer,
)
from utils.doctor._report import Report

__all__ = ["Report", "examine", "examine_decoder", "examine_kernel", "examine_layer"]

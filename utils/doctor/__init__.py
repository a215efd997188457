"""The doctor: says which mistake an attention program holds.

    from utils.doctor import examine  # installed: from one_equation.doctor import …
    print(examine(my_attention))

From the shell: ``python -m utils.doctor FILE.py:NAME --help``.
"""

from ._examine import (
    examine,
    examine_decoder,
    examine_kernel,
    examine_layer,
)
from ._report import Report

__all__ = ["Report", "assert_healthy", "examine", "examine_decoder", "examine_kernel",
           "examine_layer"]


def assert_healthy(program, **options):
    """Return the Report of ``examine(program, **options)``, for a test suite.

    Raises AssertionError, with the whole report, unless the program is healthy.
    """
    __tracebackhide__ = True  # pytest shows the line of the test instead
    report = examine(program, **options)
    if report.verdict != "healthy":
        raise AssertionError(f"\n{report}")
    return report

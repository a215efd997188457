"""Compare the outputs and gradients of many programs on one weight set.

Importing this package imports no framework; ``utils.parity.ten`` imports what a program needs when
it runs.
"""

from .adapters import (
    Program,
    jax_function,
    keras_layer,
    numpy_function,
    torch_function,
    torch_module,
)
from .comparison import (
    DTYPES,
    Case,
    Row,
    Table,
    bound,
    case,
    differences,
    eight_cases,
    expected,
    programs,
    run,
    table,
)

__all__ = [
    "DTYPES", "Case", "Program", "Row", "Table", "bound", "case", "differences", "eight_cases",
    "expected", "jax_function", "keras_layer", "numpy_function", "programs", "run", "table",
    "torch_function", "torch_module",
]

"""How a program of other people is built and called, and what was assumed of it.

The doctor calls a layer as ``(x, memory, keep)`` and a kernel as ``(q, k, v, keep)``. Here the
arguments of other signatures are recognised by name. What a mask means is found out by trying: a
masked key must not matter, and another key must.
"""

from utils.doctor.door.kernels import kernel
from utils.doctor.door.layers import layer
from utils.doctor.door.names import UnknownArgumentError

__all__ = ["UnknownArgumentError", "kernel", "layer"]

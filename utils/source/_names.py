"""The names that code uses."""

import dis
import types

LOADS = ("LOAD_NAME", "LOAD_GLOBAL")


def used(code):
    """Return the set of names that a code object, and all code within it, looks up outside."""
    found = {step.argval for step in dis.get_instructions(code) if step.opname in LOADS}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found |= used(inner)
    return found

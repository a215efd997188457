"""A plain class that holds layers of PyTorch or Keras, as a module of that framework."""

from .. import backends
from . import names


def adopted(program, sample):
    """Return a class of modules around objects of a class, or None if these hold no modules.

    ``sample``: such an object. The parts of a module are those of its object.
    """
    method = names.method_name(program)
    held = map(backends.of_module, getattr(sample, "__dict__", {}).values())
    backend = next(filter(None, held), None)
    if not (backend and method):
        return None

    class Around(backend.base):
        """A module around an object."""

        __signature__ = names.signature(program)

        def __init__(self, **given):
            super().__init__()
            one = vars(self)["one"] = program(**given)
            for name, part in vars(one).items():
                if isinstance(part, int) or backends.of_module(part):
                    setattr(self, name, part)

    def asked(self, *args, **given):
        one = vars(self)["one"]
        for name in vars(one):
            if hasattr(self, name):
                setattr(one, name, getattr(self, name))
        return getattr(one, method)(*args, **given)

    asked.__signature__ = names.signature(getattr(program, method))
    Around.__name__ = program.__name__
    setattr(Around, backend.method, asked)
    return Around

"""The zoo: attention programs as people write them, healthy and sick, each declaring its fault.

Written without sight of ``utils.doctor.faults`` and ``utils.doctor``, which are scored on it.
Importing the package imports every family, so that ``zoo.specimen.ZOO`` is complete.
"""

import importlib
import pkgutil

for family in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{family.name}")

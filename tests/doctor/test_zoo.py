"""The zoo is honest: healthy programs are right, a sick one is wrong by its one fault."""

import operator
from functools import cache

import numpy as np
import pytest
import torch
import zoo_cases
import zoo_layer_cases  # noqa: F401 - the cases of layers
from exact import raises
from first import first
from zoo.specimen import VOCABULARY, ZOO, rewritten, specimen

VISIBLE = 1e-3
HEALTHY = [s for s in ZOO if s.fault is None]
SICK = [s for s in ZOO if s.fault is not None]
FIXED = [s for s in SICK if s.fixed]
WRITES = "writes into its input"


def each(specimens):
    return pytest.mark.parametrize("animal", specimens, ids=lambda s: s.name)


def wrong(animal, program, seed=0):
    """Return the standard cases on which a program is not what its options promise."""
    torch.manual_seed(seed)
    return {case: difference for case, difference, tolerance
            in zoo_cases.answers(animal, program, seed) if not difference <= tolerance}


@cache     # two tests ask
def wrong_as_written(name, seed):
    """Return the standard cases on which the program of this name is wrong."""
    animal, = (s for s in ZOO if s.name == name)
    return wrong(animal, animal.program, seed)


@each(HEALTHY)
@pytest.mark.parametrize("seed", first(range(3)))
def test_healthy_specimen_equals_the_reference(animal, seed):
    assert wrong_as_written(animal.name, seed) == {}


@each(SICK)
@pytest.mark.parametrize("seed", first(range(3)))
def test_sick_specimen_differs_visibly(animal, seed):
    cases = wrong_as_written(animal.name, seed)
    assert max((d for case, d in cases.items() if "empty rows" not in case),
               default=0) > VISIBLE


@each(FIXED)
@pytest.mark.parametrize("seed", first(range(3)))
def test_sick_specimen_equals_the_reference_once_its_fault_is_undone(animal, seed):
    assert wrong(animal, animal.repaired(), seed) == {}


@each(ZOO)
def test_only_the_one_that_says_so_writes_into_its_input(animal):
    changed = [case for case in wrong_as_written(animal.name, 0) if case.endswith(" afterwards")]
    assert bool(changed) == (animal.fault == WRITES)


def test_there_are_enough_of_each_kind():
    outside = [s for s in SICK if not s.listed]
    assert (len(ZOO) >= 60, len(HEALTHY) >= 15, len(outside) >= 15) == (True, True, True)
    assert len(FIXED) >= 0.9 * len(SICK)
    assert len({s.name for s in ZOO}) == len(ZOO)


@pytest.mark.parametrize("level", ["kernel", "layer", "decoding"])
def test_every_listed_fault_of_this_level_is_in_the_zoo(level):
    inherited = () if level == "kernel" else VOCABULARY["kernel"]
    missing = set(VOCABULARY[level]) - set(inherited) - {s.fault for s in ZOO if s.level == level}
    assert missing == set()


@each(SICK)
def test_sick_specimen_says_where_its_fault_is(animal):
    assert animal.note
    assert animal.program.__doc__


# --- layers

MUSEUM = [s for s in ZOO if s.name.startswith("museum_")]
MODULES = [s for s in ZOO if s.options.get("module")]


def test_the_museum_shows_twelve_real_layers_and_says_where_their_story_is():
    assert len(MUSEUM) >= 12
    assert len({s.source for s in MUSEUM}) == len(MUSEUM)
    assert all(s.fault and s.source.startswith("https://") for s in MUSEUM)


@each(MODULES)
def test_roles_name_parts_that_the_module_has(animal):
    module, roles = animal.program(12, 3), animal.options["roles"] or {}
    x = zoo_cases.given(animal.framework, np.ones((2, 5, 12), np.float32))
    animal.options["call"](module, x, x, None)  # a Keras layer has no parts before
    for name in (*roles.values(), *filter(None, [animal.options.get("packed")])):
        assert operator.attrgetter(name)(module) is not None


# --- the labels themselves

@pytest.mark.parametrize(("label", "message"), [
    ({"level": "model"}, "no such level or framework: 'model', 'torch'"),
    ({"framework": "jax"}, "no such level or framework: 'kernel', 'jax'"),
    ({"fault": "no scales"}, "'no scales' is not in the vocabulary of kernels"),
    ({"listed": True}, "None is not in the vocabulary of kernels"),
    ({"fault": "no scale", "listed": False}, "'no scale' is in the vocabulary of kernels")])
def test_a_label_that_does_not_exist_is_refused(label, message):
    with raises(ValueError, message):
        specimen(**{"level": "kernel", **label})


def test_a_repair_must_fit_in_one_place():
    with raises(ValueError, "wrong has 'cases' 2 times, not once"):
        rewritten(wrong, (("cases", "answers"),))

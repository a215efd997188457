"""Programs of any framework behind one interface, whatever they do."""

import warnings

import numpy as np
import pytest
import torch

from utils import frameworks
from utils.doctor import _subject
from utils.doctor._subject import Subject

X = np.random.default_rng(0).standard_normal((2, 3))
KEEP = np.array([True, False, True])


def with_numpy(x, keep):
    return np.where(keep, x, 0)


def with_torch(x, keep):
    return torch.where(keep, x, 0)


def with_tensorflow(x, keep):
    tf = frameworks.tensorflow()
    return tf.where(keep, x, tf.zeros_like(x))


@pytest.mark.parametrize("program", [with_numpy, with_torch, with_tensorflow])
def test_a_program_gets_and_returns_arrays_of_its_framework(program):
    framework = program.__name__.removeprefix("with_")
    for dtype in ("float64", "float32"):
        answer = Subject(program, framework, dtype)(X, KEEP)
        assert answer.error == ""
        assert (type(answer.out), answer.dtype) == (np.ndarray, dtype)
        assert np.array_equal(answer.out, np.where(KEEP, X, 0).astype(dtype))


@pytest.mark.parametrize(("program", "first"), [
    (with_numpy, "numpy"), (with_torch, "torch"), (torch.nn.Linear(3, 3), "torch"),
    (lambda x: x, "torch"), (np.tanh, "numpy")])
def test_the_likeliest_framework_is_tried_first(program, first):
    assert frameworks.guesses(program)[0] == first


def test_a_program_that_mentions_nothing_is_tried_with_numpy_and_then_pytorch():
    bare = eval("lambda x: x", {})
    assert frameworks.guesses(bare) == ["numpy", "torch"]
    assert [(s.framework, s.dtype) for s in _subject.trials(bare)] == [
        ("numpy", "float64"), ("torch", "float64"), ("numpy", "float32"), ("torch", "float32")]
    assert [s.framework for s in _subject.trials(bare, "tensorflow")] == ["tensorflow"] * 2


def test_keras_counts_as_tensorflow():
    layer = frameworks.tensorflow().keras.layers.Dense(3)
    assert frameworks.guesses(layer)[0] == "tensorflow"


@pytest.mark.parametrize(("program", "words"), [
    (lambda x: 1 / 0, "raises ZeroDivisionError: division by zero"),
    (lambda x: None, "returns None; expected an array"),
    (lambda x: (x, x, x), "returns a tuple of length 3; expected an array"),
    (lambda x: (None, x), "returns a NoneType; expected an array"),
    (lambda x: 3.0, "returns a float; expected an array")])
def test_what_is_no_answer_becomes_an_error_in_words(program, words):
    answer = Subject(program, "numpy")(X)
    if "NoneType" in words:
        words = "returns None; expected an array"
    assert (answer.out, answer.error) == (None, words)


def test_a_long_message_is_one_short_line():
    def program(x):
        raise ValueError("a\nb" * 200)
    error = Subject(program, "numpy")(X).error
    assert error.startswith("raises ValueError: a ba ba")
    assert len(error) < 200


def test_an_error_that_cannot_say_what_it_is_is_told_by_its_kind():
    class OddError(Exception):
        def __str__(self):
            return self.message

    def program(x):
        raise OddError
    assert Subject(program, "numpy")(X).error == "raises OddError"


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_writing_into_an_argument_is_noticed_and_spoils_nothing(framework):
    def program(x, keep):
        x *= 2
        return x
    before = X.copy()
    answer = Subject(program, framework)(X, KEEP)
    assert answer.wrote == (0,)
    assert np.array_equal(X, before)
    assert np.array_equal(answer.out, 2 * X)


def test_two_arguments_that_are_one_array_stay_one():
    answer = Subject(lambda x, memory: np.array(float(x is memory)), "numpy")(X, X)
    assert answer.out == 1.0
    assert Subject(lambda x, memory: np.array(float(x is memory)), "numpy")(X, +X).out == 0.0


def test_dictionaries_are_turned_too_and_other_things_are_passed_on():
    def program(weights, n_heads, cache):
        assert isinstance(weights["W"], torch.Tensor)
        return weights["W"] * n_heads, cache
    cache = object()
    answer = Subject(program, "torch")({"W": X}, 3, cache)
    assert np.array_equal(answer.out, 3 * X)
    assert answer.rest is cache


def test_no_warning_and_no_gradient_comes_out():
    def program(x):
        warnings.warn("careless", stacklevel=2)
        return torch.log(-x.abs()) + torch.ones(3, requires_grad=True)
    answer = Subject(program, "torch")(X)
    assert answer.error == ""
    assert np.isnan(answer.out).all()


def test_a_subject_can_answer_as_a_function():
    assert np.array_equal(_subject.answering(Subject(with_numpy, "numpy"))(X, KEEP),
                          np.where(KEEP, X, 0))
    pair = _subject.answering(Subject(lambda x: (x, 3), "numpy"))(X)
    assert np.array_equal(pair[0], X)
    assert pair[1] == 3
    with pytest.raises(RuntimeError, match="raises ZeroDivisionError: division by zero"):
        _subject.answering(Subject(lambda x: 1 / 0, "numpy"))(X)

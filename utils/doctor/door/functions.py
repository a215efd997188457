"""A function as people write it: a kernel of q, k and v, or a layer of x and its weights."""

import re
from functools import partial

from ... import frameworks
from .. import _subject, backends
from . import entry, names, objects
from .call import Target, carried_out
from .entry import Entry
from .plan import KERNEL
from .trial import tried

# Arguments that are {"w": …, "b": …}, as in picoGPT, and the letters of which they hold weights.
PAIRS = {"cattn": "qkv", "qkv": "qkv", "inproj": "qkv", "cproj": "o", "outproj": "o", "proj": "o"}
ALL = {"W": "qkvo", "b": "qkvo"}
# Names of an argument that is a dict of weights.
HELD = re.compile(r"(params?|parameters|weights?|ws?|p|ps|theta|state(dict)?|sd|layer|attn)")


def function(program):
    """Return the Entry of a function. Raises RefusalError if it is neither."""
    problems = []
    for attempt in (kernel, *(partial(of_weights, framework=one)
                              for one in frameworks.guesses(program))):
        try:
            return attempt(program)
        except _subject.RefusalError as refusal:
            problems.append(refusal)
    no_kernel, no_layer, *_ = problems
    named = isinstance(no_kernel, names.UnknownArgumentError) or "W_q" in str(no_layer)
    raise no_kernel if named else no_layer


def kernel(program, guesses=None):
    """Return the Entry of a function of q, k and v.

    ``guesses``: the frameworks to try. Raises RefusalError if it can be called in none of the ways
    that the doctor knows.
    """
    with _subject.refusing():
        roles = names.roles_of(program)
    if not set("qkv") <= set(roles.values()):
        raise _subject.RefusalError("does not have the arguments q, k and v")
    problem = None
    for framework in guesses or frameworks.guesses(program):
        for dtype in ("float64", "float32"):
            try:
                target = Target(program, backends.BY_NAME[framework].zero(dtype))
                return _entry(program, tried(target, program, KERNEL, program=program), framework)
            except _subject.RefusalError as refusal:
                problem = problem or refusal
    raise problem


def _entry(program, trial, framework):
    """Return the Entry of what a Trial has found out."""
    def made(plan):
        def adapted(q, k, v, keep=None):
            return carried_out(trial.target._replace(like=q), plan, (q, k, v), keep)

        adapted.__name__, adapted.program = getattr(program, "__name__", "program"), program
        said = plan.said()
        return Entry(adapted, "kernel", {"framework": framework}, said[0].upper() + said[1:])
    return entry.entries(trial, made)


def of_weights(program, framework):
    """Return the Entry of a function of x and W_q, W_k, W_v. Raises RefusalError for another."""
    words = {one: names.plain(one) for one in names.parameters(program)}
    single = {one: names.weight_of(one) for one in words if any(names.weight_of(one))}
    pairs = {one: PAIRS[word] for one, word in words.items() if word in PAIRS}
    homes = [one for one, word in words.items() if HELD.fullmatch(word)]
    letters = {kind: "".join(letter for some, letter in single.values() if some == kind)
               for kind in "Wb"}

    def in_pairs(weights, transposed):
        return {one: {kind.lower(): objects.joined(weights, kind, several, transposed)
                      for kind in "Wb"} for one, several in pairs.items()}

    def one_by_one(weights, transposed):
        return {one: objects.joined(weights, *meant, transposed) for one, meant in single.items()}

    if sorted(pairs.values()) == ["o", "qkv"]:
        return _weighted(program, framework, pairs, in_pairs, ALL)
    if homes and not letters["W"]:
        return _of_dict(program, framework, homes[0])
    if not set("qkv") <= set(letters["W"]):
        raise _subject.RefusalError("does not have the arguments q, k and v, or W_q, W_k and W_v")
    return _weighted(program, framework, single, one_by_one, letters)


def _weighted(program, framework, known, held, letters):
    """Return the Entry of a function that gets ``held(weights, transposed)`` as ``known``."""
    parameters = names.parameters(program)
    heads = [one for one in parameters if names.HEADS.fullmatch(names.plain(one))]
    sizes = heads + [one for one, parameter in parameters.items()
                     if one not in (*known, *heads) and parameter.default is parameter.empty
                     and names.by_name(one, 12, 3) is not None
                     and not names.X.fullmatch(names.plain(one))]

    def bound(weights, n_heads, transposed=False):
        width = weights["W_q"].shape[1]
        return partial(program, **held(weights, transposed), **{
            one: names.by_name(one, width, n_heads) for one in sizes})

    return objects.entry_of(bound, program, letters, (12, 3 if heads else 1),
                            backends.BY_NAME[framework], "It is ", (*known, *sizes))


def _of_dict(program, framework, home):
    """Return the Entry of a function of x and a dict of weights."""
    asked = set()

    def held(weights, transposed):
        return {home: Held({name: objects.joined(weights, *name.split("_"), transposed)
                            for name in weights}, asked)}

    _weighted(program, framework, [home], held, ALL)   # to see which of them it takes
    letters = {kind: "".join(letter for some, letter in asked if some == kind) for kind in "Wb"}
    if not set("qkv") <= set(letters["W"]):
        raise _subject.RefusalError(f"takes no W_q, W_k and W_v from {home}")
    return _weighted(program, framework, [home], held, letters)


class Held(dict):
    """Weights by any name that means one of them; ``asked``: those that were, as ("W", "q")."""

    def __init__(self, weights, asked):
        super().__init__(weights)
        self._asked = asked

    def __getitem__(self, key):
        kind, letter = names.weight_of(str(key))
        if not kind:
            return self._of_gate(key)
        self._asked.add((kind, letter))
        return super().__getitem__(f"{kind}_{letter}")

    def _of_gate(self, key):
        """Return the weight or bias of a gate that is open for all inputs."""
        if not re.fullmatch(r"[wb]_*g(ate)?|g(ate)?(_(w|b|weight|bias))?", str(key).lower()):
            raise KeyError(key)
        w = super().__getitem__("W_q")
        bias = re.search(r"^b|_b", str(key).lower())
        return w[0] * 0 + 40.0 if bias else w * 0

    def __contains__(self, key):
        return any(names.weight_of(str(key)))

    def get(self, key, default=None):
        """Return a weight, or the default for a name that means none."""
        return self[key] if any(names.weight_of(str(key))) else default

"""The exercises of the chapter on states."""

import torch

from ..attention.state import recurrent, state_bytes, unit
from ..checks import difference
from ..models.open_models import MODELS, bytes_per_token
from ._check import Check, Exercise
from ._judges import parts, prediction, recognise

QWEN = MODELS["Qwen3-Next 80B"]
STATES = state_bytes(QWEN.linear, 32, 128, 128)
CACHED = bytes_per_token(QWEN)                        # by its full layers
EACH = CACHED // (QWEN.layers - QWEN.linear)          # by one of them

PADDING = {
    "linear, v": prediction(
        True, "Without a decay, a token does nothing but add kᵀ v. What does it add if v is 0?"),
    "decay, v": prediction(
        False, "A padded token adds nothing then. But what else does a token do to the state?"),
    "delta, v": prediction(
        False, "The delta rule adds beta · kᵀ (v − k S). What is that if v is 0?"),
    "delta, k": prediction(
        True, "The delta rule adds beta · kᵀ (v − k S). What is that if k is 0?"),
}


def per_dimension(q, k, v, log_decay, beta, state=None):
    """Return (context, state) of the gated delta rule with a decay for each dimension of the keys.

    As ``recurrent``, but ``log_decay`` is (b, h, i, d): row d of the state has a decay of its own.
    Source: kimi_linear/modeling_kimi_linear.py of transformers 5.23.0,
    ``recurrent_kimi_delta_attention``.
    """
    if state is None:
        state = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    contexts = []
    for i in range(k.shape[-2]):
        key = k[..., i, :, None]
        state = state * log_decay[..., i, :, None].exp()
        write = beta[..., i, None, None] * (v[..., i, None, :] - key.mT @ state)
        state = state + key * write
        contexts.append(q[..., i, None, :] @ state)
    return torch.cat(contexts, dim=-2), state


def _random(*shape, seed):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def inputs(d_v=4):
    """Return q, k, v, log_decay (b, h, i, d) and beta, float64; d is 4, so d_v may equal it."""
    q, k = (unit(_random(2, 3, 7, 4, seed=seed)) for seed in (1, 2))
    return (q, k, _random(2, 3, 7, d_v, seed=3), -_random(2, 3, 7, 4, seed=4).abs(),
            _random(2, 3, 7, seed=5).sigmoid())


def _variants(q, k, v, log_decay, beta):
    """Yield (context, message) of loops, the right one first."""
    yield per_dimension(q, k, v, log_decay, beta)[0], ""
    yield (_loop(q, k, v, log_decay, beta, order="after"),
           "the state decays after the write, so a token's own value has decayed when its query "
           "reads it.")
    yield (_loop(q, k, v, log_decay, beta, order="between"),
           "the difference is taken from the state before it has decayed. Decay first, then ask "
           "what the state returns for the key.")
    if v.shape[-1] == log_decay.shape[-1]:
        yield (_loop(q, k, v, log_decay, beta, columns=True),
               "the decay goes along the columns of the state, which belong to the values. It "
               "belongs to the dimensions of the keys, the rows.")
    yield (recurrent(q, k, v, log_decay.mean(dim=-1), beta)[0],
           "all dimensions of a token decay alike, by the average.")
    yield (recurrent(q, k, v, None, beta)[0], "nothing decays.")
    yield (_loop(q, k, v, log_decay, beta, base=lambda log: 1 + log),
           "the decay is exp(log_decay), not 1 + log_decay.")
    yield (_loop(q, k, v, log_decay, beta, base=lambda log: log),
           "log_decay is the logarithm of the decay: take exp of it.")
    yield (_loop(q, k, v, log_decay, torch.ones_like(beta)), "beta is not used.")
    yield (_loop(q, k, v, log_decay, beta, delta=False),
           "beta times the value is written, without subtracting what the state returns for the "
           "key.")
    yield (_loop(q, k, v, log_decay, beta, early=True),
           "the query reads before its own token has written.")


def _loop(q, k, v, log_decay, beta, order="before", columns=False, base=torch.exp, delta=True,
          early=False):
    """Return the context of a loop with a mistake."""
    state, contexts = k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]), []
    for i in range(k.shape[-2]):
        log = log_decay[..., i, :]
        decay = base(log[..., None, :] if columns else log[..., :, None])
        key, value = k[..., i, :, None], v[..., i, None, :]
        old = state if order != "before" else state * decay
        write = key * beta[..., i, None, None] * (value - (key.mT @ old if delta else 0))
        new = {"before": old + write, "after": (state + write) * decay,
               "between": state * decay + write}[order]
        contexts.append(q[..., i, None, :] @ (old if early else new))
        state = new
    return torch.cat(contexts, dim=-2)


def _per_dimension(program):
    """Judge per_dimension(q, k, v, log_decay, beta): the context, with d_v = d and d_v ≠ d."""
    for d_v in (4, 6):
        given = inputs(d_v)
        before = [side.clone() for side in given]
        found = program(*given)
        if not all(map(torch.equal, given, before)):
            return "it changes its arguments: do not use in-place operations on them."
        if isinstance(found, tuple):
            return "it must return the context alone, without the state."
        want = given[2].shape
        if not isinstance(found, torch.Tensor) or found.shape != want:
            shape = getattr(found, "shape", type(found).__name__)
            return f"it must return (b, h, i, d_v) = {tuple(want)}, not {shape}."
        message = recognise(found, _variants(*given), 1e-9)
        if message is None:
            right = per_dimension(*given)[0]
            message = (f"it differs from the loop by {difference(found, right):.1g}. With equal "
                       "decays in all dimensions, it must return what `recurrent` returns.")
        if message:
            return message
    return ""


MEMORY = {
    "tokens": prediction(STATES // QWEN.linear // EACH, {
        STATES // CACHED: "That divides all states by the cache of all full layers. The question "
                          "asks for one layer of each kind.",
        STATES // QWEN.linear // EACH // 2: "The elements of the state are float32, with 4 bytes.",
        None: "Bytes of one state: heads · d · d_v · 4. Bytes of one token in a full layer: "
              "2 · kv_heads · d_head · 2."}),
    "GiB, hybrid": prediction((CACHED * 2 ** 20 + STATES) / 2 ** 30, {
        None: "Add the cache of the 12 full layers for 2**20 tokens and the 36 states, in bytes, "
              "and divide by 2**30."}, tolerance=0.01),
    "GiB, all full": prediction(EACH * QWEN.layers * 2 ** 20 / 2 ** 30, {
        None: "All 48 layers cache 2 · 2 · 256 elements of 2 bytes for each token."},
        tolerance=0.01),
}

check = Check({
    "padding": Exercise(parts(PADDING), (
        "A token can change the state in two ways: it multiplies it, and it adds to it.",
        "Write down S after a padded token, for each of the four. It must be S."),
        "Zero keys and a decay of 1 are right for all four rules: that is `without_padding`."),
    "per_dimension": Exercise(_per_dimension, (
        "Begin with the loop of `recurrent`. One line changes.",
        "The state is (b, h, d, d_v). The decay of a token is (b, h, d): which axis is missing?",
        "log_decay[..., i, :, None].exp() has one element for each row of the state."),
        "With that line, the gated delta rule is the one of Kimi Linear."),
    "memory": Exercise(parts(MEMORY), (
        "A state has heads · d · d_v elements. A full layer caches kv_heads · d_head elements for "
        "k and as many for v, for each token.",
        "One state: 32 · 128 · 128 · 4 bytes. One token in one full layer: 2 · 2 · 256 · 2 bytes."),
        "At that length, the states take little memory. Nearly all of it is the cache of the 12 "
        "full layers."),
})

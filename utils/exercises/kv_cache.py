"""The exercises of the chapter on the KV cache."""

import torch

from .. import checks
from ._check import Check, Exercise
from ._judges import doctor_report, parts, prediction, predictions

MEMORY = predictions(
    {"KiB a token": 512, "tokens in 16 GiB": 32768, "GiB with a window": 2, "keys at hand": 4607},
    {"KiB a token": {
        256: "A cache holds keys, and what else?", 16: "That is one layer.",
        8: "That is one layer, and only its keys.",
        1024: "float16 has 16 bits: how many bytes?", 524288: "That is in bytes; a KiB has 1024.",
        262144: "That is in bytes, and for keys alone.", 524.288: "A KiB has 1024 bytes, not 1000.",
        16384: "All heads together have 4096 dimensions, not each of them.",
        None: "Count two tensors, all layers, all dimensions, two bytes each."},
     "tokens in 16 GiB": {
         65536: "Keys and values both need memory.",
         32: "A GiB has 1024 MiB, and a MiB has 1024 KiB.",
         16384: "A float16 number has two bytes.", 1048576: "That is for one layer, not for all.",
         None: "16 GiB are 16 · 1024 · 1024 KiB. Divide that by the KiB of a token."},
     "GiB with a window": {
         488: "That is without a window.", 488.28125: "That is without a window.",
         500: "That is without a window.", 2048: "That is in MiB, not in GiB.",
         1: "The cache holds keys and values.", 0.0625: "That is one layer.",
         None: "How many of the million tokens does the cache of a layer hold at most?"},
     "keys at hand": {
         4608: "That is one too many. The first query is one of its own 4096 positions.",
         4096: "The last query needs 4096. The first one is 511 positions before it.",
         512: "Those are the new keys. And how many earlier keys does the first query need?",
         3584: "Each query has a window of its own, not the whole chunk.",
         4095: "A window includes the query's own position; and there are 512 queries.",
         None: "Count from the first key in the first query's window to the last query's key."}})


def _chunks(chunks):
    """Judge two chunks that should reveal the mistake."""
    whole = isinstance(chunks, list | tuple) and all(
        isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in chunks)
    if not whole or sum(chunks) != 12:
        return f"give whole numbers of at least 1 that add up to 12, not {chunks!r}."
    if len(chunks) != 2:
        return f"two chunks are enough; you have {len(chunks)}."
    if chunks[0] == chunks[1]:
        return ("6 + 6 has been tested already. When the second chunk arrives, how many keys are "
                "in the cache according to n * n_q, and how many really are?")
    return ""


def _step(step):
    """Judge a decoding step."""
    report = doctor_report(step, "decoding", framework="torch")
    if not report or _output(step, (4, 8)) is None:
        return report
    if all(_right(step, (n,) * (12 // n)) for n in (1, 2, 3, 4, 6, 12)):
        return ("equal chunks are right, but 4 + 8 or 8 + 4 are not. The number of cached keys "
                "does not follow from the number of new ones.")
    if _right(step, (12,)) and _right(step, (1,) * 12) and not _right(step, (4, 8)):
        return ("one pass and single tokens are right, but not several later tokens at a time.\n"
                + report)
    return report


def _output(step, chunks):
    """Return (got, expected) of twelve random tokens in these chunks, None if it raises."""
    q, k, v = torch.randn(3, 2, 3, 12, 4, generator=torch.Generator().manual_seed(3),
                          dtype=torch.float64)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    cache, parts = None, []
    try:
        for new in zip(*(side.split(chunks, dim=2) for side in (q, k, v)), strict=True):
            context, cache = step(*new, cache)
            parts.append(context)
        return torch.cat(parts, dim=2), expected
    except Exception:  # of the reader's code: the doctor reports it
        return None


def _right(step, chunks):
    """Return whether these chunks give the same output as one pass."""
    both = _output(step, chunks)
    return both is not None and both[0].shape == both[1].shape and checks.difference(*both) < 1e-9


def _goes_on(program):
    """Judge positions_of(real, last)."""
    real = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 0, 0, 1], [1, 0, 1, 1, 0], [0] * 5]).bool()
    last = torch.tensor([[6], [-1], [2], [4]])
    got = program(real.clone(), last.clone())
    if not isinstance(got, torch.Tensor) or got.shape != real.shape:
        shape = f"shape {tuple(got.shape)}" if hasattr(got, "shape") else type(got).__name__
        return f"It must return a tensor (4, 5), like real, not {shape}."
    if got.is_floating_point() or got.dtype == torch.bool:
        return f"Positions must be integers, not {got.dtype}."
    for known, message in _known_positions(real, last):
        if got.equal(known.to(got.dtype)):
            return message
    right = next(_known_positions(real, last))[0]
    b, i = (got != right).nonzero()[0].tolist()
    what = "a token" if real[b, i] else "padding"
    return (f"With real {real[b].int().tolist()} and last {last[b, 0]}, column {i} is {what} and "
            f"must get {right[b, i]}, not {got[b, i]}.")


def _known_positions(real, last):
    """Yield (positions, message), the right ones first."""
    count, columns = real.cumsum(dim=1), torch.arange(real.shape[1])
    hidden = "padding must get −1, so that no query attends to it."
    again = "each chunk begins at 0 again: you do not use `last`."
    counted = "columns are counted, not tokens: padding must not take a position."
    yield (last + count).masked_fill(~real, -1), ""
    yield last + count, f"The tokens are right, but {hidden}"
    yield ((last + count).masked_fill(~real, 0),
           "Padding must get −1: position 0 belongs to the first token.")
    yield (count - 1).masked_fill(~real, -1), f"In yours {again}"
    yield count - 1, f"In yours {again} And {hidden}"
    yield (last + 1 + columns).masked_fill(~real, -1), f"In yours {counted}"
    yield last + 1 + columns, f"In yours {counted} And {hidden}"
    yield columns.expand(real.shape).masked_fill(~real, -1), f"In yours {again} And {counted}"
    yield ((last + count - 1).masked_fill(~real, -1),
           "All positions are 1 too small: the first new token gets that of the last old one.")
    yield ((last + count + 1).masked_fill(~real, -1),
           "All positions are 1 too large: the first new token comes right after `last`.")
    yield ((last.max() + count).masked_fill(~real, -1),
           "You continue every text where the longest ends; but each has its own last position.")


check = Check({
    "fails_one_chunking": Exercise(parts({
        "chunks": _chunks,
        "second": prediction("too much", {
            "too little": "Take 4 + 8. Where does the second chunk begin, and where does n * n_q "
                          "put it?",
            None: 'Answer "too much" or "too little".'}),
        "step": _step}), (
        "tril(m) lets query i attend to the keys up to i + m. So m must be the number of keys "
        "before this chunk. What does the program use for m?",
        "It multiplies the number of chunks so far by the length of *this* one. For which lengths "
        "is that wrong at the second chunk?",
        "You need not count chunks: n_k − n_q keys are old."),
        "Chunks of equal length hide a mistake about lengths: test with unequal ones."),
    "memory": Exercise(MEMORY, (
        "A token needs, in each layer, a row of keys and a row of values, 4096 numbers each.",
        "A window limits the number of cached tokens, however long the text is.",
        "The first query of a chunk attends to 4095 keys before its own, and 511 more tokens of "
        "the chunk follow it."),
        "A token needs half a megabyte, so on long texts the cache fills the memory. Windows, or "
        "fewer heads for keys and values, make it smaller."),
    "goes_on": Exercise(_goes_on, (
        "cumsum over the tokens counts them: the first one gets 1.",
        "`last` is (b, 1) and broadcasts. The first new token has the position last + 1.",
        "masked_fill(~real, …) sets the value for padding."),
        "Since you count tokens, not columns, the padding of a batch does not change a text's "
        "positions."),
})

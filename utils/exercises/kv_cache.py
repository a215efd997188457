"""The exercises of the chapter on the KV cache."""

import torch

from utils import checks
from utils.exercises._answers import listed
from utils.exercises._check import Check, Exercise, examined, predictions, untouched

KEYS = "'chunks', 'second', 'step'"
SECOND = predictions({"second": "too much"}, {"second": {
    "too little": "Take 4 + 8. Where does the second chunk begin, and where does n * n_q put it?",
    None: '"too much" or "too little".'}})
MEMORY = predictions(
    {"KiB a word": 512, "words in 16 GiB": 32768, "GiB with a window": 2, "keys at hand": 4607},
    {"KiB a word": {
        256: "Keys, and what else?", 16: "That is one layer.", 8: "One layer, and only its keys.",
        1024: "float16 has 16 bits: how many bytes?", 524288: "In KiB: a KiB is 1024 bytes.",
        262144: "In KiB; and it is keys and values.", 524.288: "A KiB is 1024 bytes, not 1000.",
        16384: "All heads together have 4096 features, not each.",
        None: "Two tensors, all layers, all features, two bytes each."},
     "words in 16 GiB": {
         65536: "Keys and values take their room.", 32: "A GiB is 1024 MiB, and that is 1024 KiB.",
         16384: "float16 has two bytes.", 1048576: "In all layers, not in one.",
         None: "16 GiB are 16 · 1024 · 1024 KiB. Divide."},
     "GiB with a window": {
         488: "That is without a window.", 488.28125: "That is without a window.",
         500: "That is without a window.", 2048: "In GiB: that is MiB.",
         1: "Keys and values.", 0.0625: "That is one layer.",
         None: "How many words of the million does each layer hold at most?"},
     "keys at hand": {
         4608: "One too many. The first query sees itself, too: it is one of its 4096.",
         4096: "The last query needs 4096. The first one stands 511 places before it.",
         512: "Those are the new ones. And the past of the first?",
         3584: "The window is that of each query, not of the chunk.",
         4095: "A window holds the query's own position; and there are more queries than one.",
         None: "From the first key that the first query sees to the last query's own."}})


def _fails(given):
    if not isinstance(given, dict) or set(given) != {"chunks", "second", "step"}:
        return f"The answer is a dict with the keys {KEYS}."
    step, chunks = given["step"], given["chunks"]
    return listed([part for part in (
        "Still open: chunks." if untouched(chunks) else _chunks(chunks),
        SECOND({"second": given["second"]}),
        "Still open: step." if untouched(step) else _step(step)) if part])


def _chunks(chunks):
    """Return what is wrong with two chunks that shall find the mistake, "" if nothing is."""
    whole = isinstance(chunks, list | tuple) and all(
        isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in chunks)
    if not whole or sum(chunks) != 12:
        return f"chunks: numbers from 1 up that add up to 12 are asked for, not {chunks!r}."
    if len(chunks) != 2:
        return f"chunks: two are enough; yours are {len(chunks)}."
    if chunks[0] == chunks[1]:
        return ("chunks: 6 + 6 is one of those that have been tested. How many keys does n * n_q "
                "take to be in the cache when the second chunk arrives, and how many are there?")
    return ""


def _step(step):
    """Return what is wrong with a decoding step, "" if nothing is."""
    why = examined(step, "decoding", framework="torch")
    if not why or _output(step, (4, 8)) is None:
        return why and f"step: {why}"
    equal = all(_right(step, (n,) * (12 // n)) for n in (1, 2, 3, 4, 6, 12))
    if equal:
        return ("step: equal chunks are right, but 4 + 8 or 8 + 4 are not. How many keys are held "
                "is not a question of how many are new.")
    if _right(step, (12,)) and _right(step, (1,) * 12) and not _right(step, (4, 8)):
        return ("step: one pass and single words are right, but not several words that come "
                f"later.\n{why}")
    return f"step: {why}"


def _output(step, chunks):
    """Return (got, expected) of twelve random words in these chunks, None where it fails."""
    q, k, v = torch.randn(3, 2, 3, 12, 4, generator=torch.Generator().manual_seed(3),
                          dtype=torch.float64)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    cache, parts = None, []
    try:
        for new in zip(*(side.split(chunks, dim=2) for side in (q, k, v)), strict=True):
            context, cache = step(*new, cache)
            parts.append(context)
        return torch.cat(parts, dim=2), expected
    except Exception:  # of the reader's code: the doctor says it
        return None


def _right(step, chunks):
    """Return whether these chunks give what one pass gives."""
    both = _output(step, chunks)
    return both is not None and both[0].shape == both[1].shape and checks.difference(*both) < 1e-9


def _goes_on(program):
    """Return what is wrong with positions_of(real, last), "" if nothing is."""
    real = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 0, 0, 1], [1, 0, 1, 1, 0], [0] * 5]).bool()
    last = torch.tensor([[6], [-1], [2], [4]])
    got = program(real.clone(), last.clone())
    if not isinstance(got, torch.Tensor) or got.shape != real.shape:
        shape = f"shape {tuple(got.shape)}" if hasattr(got, "shape") else type(got).__name__
        return f"A tensor is asked for, (4, 5) as real is, not {shape}."
    if got.is_floating_point() or got.dtype == torch.bool:
        return f"Positions are integers, not {got.dtype}."
    for wrong, why in _positions(real, last):
        if got.equal(wrong.to(got.dtype)):
            return why
    right = next(_positions(real, last))[0]
    b, i = (got != right).nonzero()[0].tolist()
    what = "a word" if real[b, i] else "padding"
    return (f"With real {real[b].int().tolist()} and last {last[b, 0]}, column {i} is {what} and "
            f"should get {right[b, i]}, not {got[b, i]}.")


def _positions(real, last):
    """Yield the right positions, and wrong ones, with what is wrong."""
    count, columns = real.cumsum(dim=1), torch.arange(real.shape[1])
    hidden = "padding has no position: −1, and nobody may see it."
    again = "each chunk begins at 0 again: `last` makes no difference."
    counted = "columns are counted, not words: padding takes up no position."
    yield (last + count).masked_fill(~real, -1), ""
    yield last + count, f"Nearly: {hidden}"
    yield (last + count).masked_fill(~real, 0), "Padding gets −1: at 0 stands the first word."
    yield (count - 1).masked_fill(~real, -1), f"In yours {again}"
    yield count - 1, f"In yours {again} And {hidden}"
    yield (last + 1 + columns).masked_fill(~real, -1), f"In yours {counted}"
    yield last + 1 + columns, f"In yours {counted} And {hidden}"
    yield columns.expand(real.shape).masked_fill(~real, -1), f"In yours {again} And {counted}"
    yield ((last + count - 1).masked_fill(~real, -1),
           "One too early: the first new word gets the position of the last old one.")
    yield ((last + count + 1).masked_fill(~real, -1),
           "One too late: the first new word comes right after `last`.")
    yield ((last.max() + count).masked_fill(~real, -1),
           "All texts go on where the longest ends; but each has a last position of its own.")


check = Check({
    "fails_one_chunking": Exercise(_fails, (
        "tril(m) lets query i see the keys up to i + m. So m must be how many keys there were "
        "before this chunk. What does the program take for it?",
        "It multiplies the chunks so far by the length of *this* one. Which lengths make that "
        "wrong already at the second chunk?",
        "You need not count anything: n_k − n_q keys are old."),
        "Chunks of equal length cannot see a mistake about lengths: test with uneven ones."),
    "goes_on": Exercise(_goes_on, (
        "cumsum over the words counts them: the first is 1.",
        "`last` is (b, 1) and broadcasts. The first new word stands at last + 1.",
        "masked_fill(~real, …) says what padding gets."),
        "Counted by words and not by columns, a text comes out as if it were alone."),
    "memory": Exercise(MEMORY, (
        "Per word and layer: a row of keys and a row of values, 4096 numbers each.",
        "A window limits how many words are held, however long the text is.",
        "The first query of a chunk still sees 4095 keys before its own, and 511 more words stand "
        "behind it."),
        "Half a megabyte a word: on long texts it is the cache that fills the memory, and windows "
        "or fewer heads for keys and values are what is done about it."),
})

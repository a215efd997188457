"""The exercises of the chapter on positions."""

import torch

from ._check import Check, Exercise
from ._judges import predictions
from ._positions_rope import judge_rope

PROPOSALS = predictions(
    {"a": False, "b": True, "c": True, "d": False, "e": True, "scores_only": "a"}, {
        "a": "Every score of a row changes by the same number. How does that change softmax?",
        "b": "The product of the two position terms depends on i − j. And the two terms in the "
             "middle?",
        "c": "Does log(1 + i) − log(1 + j) depend on i − j alone? Try 6 and 3, then 106 and 103.",
        "d": "The rotated dimensions depend on the difference of positions. Do the others depend "
             "on positions at all?",
        "e": "Is there a key with j < 4 when the sentence begins at 100?",
        "scores_only": {"d": "In (d) the scores do not change either.",
                        **dict.fromkeys("bce", "In this one the weights change, too."),
                        None: "Answer a, b, c, d or e."}})


def _port(port):
    """Judge port(W, n_heads, turned): which reordering is it?"""
    cases = [((5, 24), 3, 8), ((36, 36), 3, 12), ((36, 36), 3, 8), ((30,), 3, 6), ((4, 24), 2, 10)]
    got = []
    for seed, (shape, n_heads, turned) in enumerate(cases):
        W = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        before = W.clone()
        new = port(W, n_heads, turned)
        if not isinstance(new, torch.Tensor):
            return f"It must return a tensor, not {type(new).__name__}."
        if not torch.equal(W, before):
            return "It changes W in place, but the caller still needs it. Make a new tensor."
        if new.shape != W.shape:
            return (f"For {shape}, {n_heads} heads and turned = {turned} it returns "
                    f"{tuple(new.shape)}. The shape must stay the same.")
        got.append((new, W, n_heads, turned))
    for message, reordering in REORDERINGS.items():
        if all(torch.equal(new, reordering(*given)) for new, *given in got):
            return message
    new, W, n_heads, turned = next(case for case in got
                                   if not torch.equal(case[0], _interleaved(*case[1:])))
    d = W.shape[-1] // n_heads
    if not torch.equal(new.flatten().sort().values, W.flatten().sort().values):
        return "The result contains other numbers than W. Only reorder them."
    return (f"For {n_heads} heads of {d} dimensions and turned = {turned}, the order is wrong. "
            "Fill a bias with 0, 1, 2, … and see where each dimension goes.")


def _in_heads(reorder):
    """Return a reordering of the first ``turned`` dimensions of each head."""
    def reorder_all(W, n_heads, turned):
        head = W.unflatten(-1, (n_heads, -1))
        return torch.cat((reorder(head[..., :turned]), head[..., turned:]), -1).flatten(-2)
    return reorder_all


_interleaved = _in_heads(lambda x: x.unflatten(-1, (2, -1)).mT.flatten(-2))
_half_split = _in_heads(lambda x: x.unflatten(-1, (-1, 2)).mT.flatten(-2))


def _one_head(W, n_heads, turned):
    d = W.shape[-1]
    return _interleaved(W, 1, turned if turned * n_heads < d else d)


def _all_dimensions(W, n_heads, turned):
    return _interleaved(W, n_heads, W.shape[-1] // n_heads)


def _last_dimensions(W, n_heads, turned):
    def flipped(x):
        return x.unflatten(-1, (n_heads, -1)).flip(-1).flatten(-2)
    return flipped(_interleaved(flipped(W), n_heads, turned))


REORDERINGS = {
    "": _interleaved,
    "The order is unchanged.": lambda W, n_heads, turned: W,
    "That is the inverse, from interleaved to half-split. Dimension n + turned/2 of a half-split "
    "head belongs *beside* dimension n.": _half_split,
    "You treat W as one large head. Pairs are made within each head of h · d dimensions.":
        _one_head,
    "You make pairs among all d dimensions of a head. Only the first `turned` of them are rotated, "
    "and their halves have turned/2 dimensions; the others stay.": _all_dimensions,
    "It swaps the two halves. The two dimensions of a pair must become neighbours.":
        _in_heads(lambda x: x.roll(x.shape[-1] // 2, -1)),
    "You pair the *last* dimensions of a head, but the first `turned` are rotated.":
        _last_dimensions}

check = Check({
    "shifting_positions": Exercise(judge_rope, (
        "Two lines rotate, the rest is attention as usual. rotary(positions, d) takes the number "
        "of dimensions of one head.",
        "Rotate queries by the angles of q_positions and keys by those of k_positions, in the same "
        "direction; leave values as they are.",
        "After the rotation: scores over √d, −inf where keep is False, softmax over the keys, "
        "times v."),
        "q and k may now have positions of their own: a key that was rotated at its own position "
        "never needs another rotation. The next chapter stores such keys."),
    "proposals": Exercise(PROPOSALS, (
        "For each proposal: does it depend on i − j, or on i and j in another way?",
        "Softmax ignores what all scores of a row share.",
        "Try numbers: a query at 6 and a key at 3, then at 106 and 103."),
        "(a) is how ALiBi was first programmed: m j and −m (i − j) differ by a constant of the "
        "row, for all keys that a causal mask allows."),
    "port": Exercise(_port, (
        "Split the last axis into heads, (…, h, d), and each head into the rotated part and the "
        "rest.",
        "The rotated part has two halves, (…, 2, turned / 2). The interleaved program needs "
        "(…, turned / 2, 2).",
        "Use unflatten, transpose and flatten; then cat with the rest, and flatten the heads."),
        "You reorder W_q, W_k and their biases once; W_v and W_o stay as they are."),
})

"""The exercises of the chapter on positions."""

import torch

from utils.exercises._check import Check, Exercise, predictions
from utils.exercises._turns import turning

PROPOSALS = predictions(
    {"a": False, "b": True, "c": True, "d": False, "e": True, "scores_only": "a"}, {
        "a": "Every score of a row changes by the same number. What does softmax make of that?",
        "b": "The place · place term now cancels. And the two terms in the middle?",
        "c": "Does log(1 + i) − log(1 + j) depend on i − j alone? Try 6 and 3, then 106 and 103.",
        "d": "Those that are turned give a difference of positions. And those that are not: do "
             "they know of positions at all?",
        "e": "Is there a key with j < 4 when the sentence begins at 100?",
        "scores_only": {"d": "There, not even the scores move.",
                        **dict.fromkeys("bce", "There, the weights move, too."),
                        None: "One of a, b, c, d, e."}})


def _port(port):
    """Judge port(W, n_heads, turned): which reordering is it?"""
    cases = [((5, 24), 3, 8), ((36, 36), 3, 12), ((36, 36), 3, 8), ((30,), 3, 6), ((4, 24), 2, 10)]
    got = []
    for seed, (shape, n_heads, turned) in enumerate(cases):
        W = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        before = W.clone()
        new = port(W, n_heads, turned)
        if not isinstance(new, torch.Tensor):
            return f"It should return a tensor, not {type(new).__name__}."
        if not torch.equal(W, before):
            return "It writes into W, and the checkpoint is somebody else's. Make a new tensor."
        if new.shape != W.shape:
            return (f"For {shape}, {n_heads} heads of which {turned} features turn, it returns "
                    f"{tuple(new.shape)}. Nothing is added and nothing left out: same shape.")
        got.append((new, W, n_heads, turned))
    for why, wrong in REORDERINGS.items():
        if all(torch.equal(new, wrong(*rest)) for new, *rest in got):
            return why
    new, W, n_heads, turned = next(case for case in got
                                   if not torch.equal(case[0], _interleaved(*case[1:])))
    d = W.shape[-1] // n_heads
    if not torch.equal(new.flatten().sort().values, W.flatten().sort().values):
        return "Other numbers come out than went in. Reorder, do not calculate."
    return (f"For {n_heads} heads of {d} features of which {turned} turn, the order is not it. "
            "Fill a bias with 0, 1, 2, … and read off where each feature goes.")


def _heads(reorder):
    """Return a reordering of the first ``turned`` features of each head, from one of a vector."""
    def whole(W, n_heads, turned):
        head = W.unflatten(-1, (n_heads, -1))
        return torch.cat((reorder(head[..., :turned]), head[..., turned:]), -1).flatten(-2)
    return whole


_interleaved = _heads(lambda x: x.unflatten(-1, (2, -1)).mT.flatten(-2))
_halves = _heads(lambda x: x.unflatten(-1, (-1, 2)).mT.flatten(-2))


def _all_heads_at_once(W, n_heads, turned):
    if turned * n_heads < W.shape[-1]:
        return _interleaved(W, 1, turned)
    return _interleaved(W, 1, W.shape[-1])


REORDERINGS = {
    "": _interleaved,
    "Nothing has moved.": lambda W, n_heads, turned: W,
    "That is the way back: from interleaved to half-split. Feature n + turned/2 of a half-split "
    "head belongs *beside* feature n.": _halves,
    "You take W for one large head. Pairs are made within each head of h · d features.":
        _all_heads_at_once,
    "Pairs are made among all d features of a head. Only the first `turned` of them turn, and "
    "their halves are halves of `turned`; the others stay.":
        lambda W, n_heads, turned: _interleaved(W, n_heads, W.shape[-1] // n_heads),
    "It swaps the two halves. Pairs should come to stand side by side.":
        _heads(lambda x: x.roll(x.shape[-1] // 2, -1)),
    "Your *first* features pass and the last ones are paired. It is the first `turned` that turn.":
        lambda W, n_heads, turned: _interleaved(
            W.unflatten(-1, (n_heads, -1)).flip(-1).flatten(-2), n_heads, turned).unflatten(
                -1, (n_heads, -1)).flip(-1).flatten(-2)}

check = Check({
    "shifting_positions": Exercise(turning, (
        "Two lines turn, the rest is attention as ever. rotary(positions, d) takes the features of "
        "one head.",
        "Queries turn by the angles of q_positions and keys by those of k_positions, in the same "
        "direction; values not at all.",
        "After the turning: scores over √d, −inf where keep is False, softmax over the keys, "
        "times v."),
        "q and k may now come from different moments: a key that was turned at its own position "
        "never needs to be turned again. The next chapter keeps such keys."),
    "proposals": Exercise(PROPOSALS, (
        "Ask of each: does i − j come in, or something else of i and j?",
        "Softmax forgives what all scores of a row have in common.",
        "Put in numbers: a query at 6 and a key at 3, then at 106 and 103."),
        "(a) is how ALiBi was first programmed: m j and −m (i − j) differ by a constant of the "
        "row, on everything that a causal mask leaves."),
    "port": Exercise(_port, (
        "Split the last axis into heads, (…, h, d), and each head into what turns and what passes.",
        "What turns is two halves, (…, 2, turned / 2). The interleaved program wants (…, turned / "
        "2, 2).",
        "unflatten, transpose, flatten; then cat with the rest, and flatten the heads."),
        "W_q, W_k and their biases are reordered, once, and W_v and W_o stay as they are."),
})

"""Attempts at the exercises on the trained encoder."""

import torch

FOUND = {"before": (0, 2), "after": (1, 8)}
CAUGHT = {"alone": True, "rows": False, "equal": False, "order": False, "padding": True,
           "right": "longest"}


def looks_at(maps, real, offset):
    both = real & real.roll(-offset, dims=1)
    start, stop = max(0, -offset), real.shape[1] - max(0, offset)
    both = both[:, start:stop]
    line = maps.diagonal(offset, 3, 4)
    return (line * both[:, None, None]).sum(dim=(0, 3)) / both.sum()


def by_loops(maps, real, offset):
    total, count, n = 0, 0, real.shape[1]
    for b in range(len(real)):
        for i in range(n):
            if 0 <= i + offset < n and real[b, i] and real[b, i + offset]:
                total, count = total + maps[b, :, :, i, i + offset], count + 1
    return (total / count).numpy()


def padded(maps, real, offset):
    return maps.diagonal(offset, 3, 4).mean(dim=(0, 3))


def other_way(maps, real, offset):
    return looks_at(maps, real, -offset)


def columns(maps, real, offset):
    return looks_at(maps.mT, real, offset)


def all_tokens(maps, real, offset):
    line = maps.diagonal(offset, 3, 4)
    is_query = real[:, max(0, -offset):][:, :line.shape[-1]]
    return (line * is_query[:, None, None]).sum(dim=(0, 3)) / real.sum()


def real_queries(maps, real, offset):
    line = maps.diagonal(offset, 3, 4)
    is_query = real[:, max(0, -offset):][:, :line.shape[-1]]
    return (line * is_query[:, None, None]).sum(dim=(0, 3)) / is_query.sum()


def real_keys(maps, real, offset):
    line = maps.diagonal(offset, 3, 4)
    is_key = real[:, max(0, offset):][:, :line.shape[-1]]
    return (line * is_key[:, None, None]).sum(dim=(0, 3)) / is_key.sum()


def all_positions(maps, real, offset):
    keep = (real[:, :, None] & real[:, None])[:, None, None]
    return (maps * keep).diagonal(offset, 3, 4).mean(dim=(0, 3))


def per_sentence(maps, real, offset):
    return torch.stack([looks_at(maps[b:b + 1], real[b:b + 1], offset)
                        for b in range(len(real))]).mean(dim=0)


def not_summed(maps, real, offset):
    return maps.diagonal(offset, 3, 4).mean(dim=3)


def rollout(maps):
    step = (maps.mean(dim=2) + torch.eye(maps.shape[-1])) / 2
    made = step[:, 0]
    for layer in range(1, step.shape[1]):
        made = step[:, layer] @ made
    return made


def residual_last(maps):
    made = torch.eye(maps.shape[-1]).expand(len(maps), -1, -1)
    for layer in maps.mean(dim=2).unbind(dim=1):
        made = 0.5 * made + 0.5 * layer @ made
    return made.numpy()


def reversed_layers(maps):
    return rollout(maps.flip(1))


def nothing_stays(maps):
    made = maps.mean(dim=2)[:, 0]
    for layer in maps.mean(dim=2)[:, 1:].unbind(dim=1):
        made = layer @ made
    return made


def whole_stays(maps):
    return rollout(maps) * 2 ** maps.shape[1]


def element_by_element(maps):
    return ((maps.mean(dim=2) + torch.eye(maps.shape[-1])) / 2).prod(dim=1)


def mean_of_layers(maps):
    return ((maps.mean(dim=2) + torch.eye(maps.shape[-1])) / 2).mean(dim=1)


def added_heads(maps):
    return rollout(maps.sum(dim=2, keepdim=True))


RIGHT = {
    "which_head": [FOUND | {"score": looks_at}, FOUND | {"score": by_loops},
                   {"score": looks_at, "before": [0, 2], "after": torch.tensor([1, 8])}],
    "forgotten_mask": [CAUGHT, CAUGHT | {"right": " Longest"}],
    "rollout": [{"rollout": rollout, "as good": False},
                {"rollout": residual_last, "as good": False}]}

WRONG = {
    "which_head": [
        (FOUND | {"score": padded}, "padding is counted"),
        (FOUND | {"score": other_way}, "the other direction"),
        (FOUND | {"score": columns}, "the other direction"),
        (FOUND | {"score": all_tokens}, "all tokens, also of those without such a neighbour"),
        (FOUND | {"score": real_keys}, "counts queries that are padding"),
        (FOUND | {"score": all_positions}, "divide by the number of all positions"),
        (FOUND | {"score": per_sentence}, "the mean of the sentences' means"),
        (FOUND | {"score": not_summed}, "it must be (2, 4), not (3, 2, 4)"),
        (FOUND | {"score": lambda maps, real, offset: maps[0, :, :, 0, 0]}, "compare with a loop"),
        (FOUND | {"score": looks_at, "before": (2, 0)}, "in this order"),
        (FOUND | {"score": looks_at, "after": (0, 2)}, "attends to the token *before*"),
        (FOUND | {"score": looks_at, "after": None}, "Still open: after"),
        (FOUND | {"score": None}, "Still open: score"),
        (looks_at, "with the keys")],
    "forgotten_mask": [
        (CAUGHT | {"rows": True}, "with padding included, too"),
        (CAUGHT | {"equal": True}, "How much padding is there"),
        (CAUGHT | {"order": True}, "Each sentence keeps its padding"),
        (CAUGHT | {"alone": False, "padding": False}, "Real tokens attend to [PAD]"),
        (CAUGHT | {"right": "all"}, "Shorter sentences have padding"),
        (CAUGHT | {"right": None}, "Still open: right")],
    "rollout": [
        ({"rollout": reversed_layers, "as good": False}, "wrong order"),
        ({"rollout": nothing_stays, "as good": False}, "the residual is missing"),
        ({"rollout": whole_stays, "as good": False}, "the rows must sum to 1"),
        ({"rollout": lambda maps: rollout(maps).mT, "as good": False}, "rows and columns are"),
        ({"rollout": element_by_element, "as good": False}, "element by element"),
        ({"rollout": mean_of_layers, "as good": False}, "a mean of the layers"),
        ({"rollout": lambda maps: rollout(maps).mean(dim=1), "as good": False},
         "over the rows later"),
        ({"rollout": lambda maps: rollout(maps[:, 1:]), "as good": False}, "first layer is"),
        ({"rollout": added_heads, "as good": False}, "you add up the heads"),
        ({"rollout": lambda maps: rollout(maps)[..., 1:], "as good": False}, "not (3, 7, 6)"),
        ({"rollout": lambda maps: rollout(maps) ** 2, "as good": False}, "compare with a loop"),
        ({"rollout": rollout, "as good": True}, "Measure"),
        ({"rollout": None, "as good": False}, "Still open: rollout")]}

"""Attempts at the exercises on reading heads."""

import torch

WORSE = {"induction_on_twice": True, "brackets_on_twice": False, "previous_on_closing": False,
         "bracket_on_closing": True, "induction_before_previous": False,
         "previous_before_induction": True}


def pairs(tokens):
    return tokens[:, :, None] == tokens[:, None, :]


def by_loops(tokens):
    b, n = tokens.shape
    target = torch.zeros(b, n, n, dtype=torch.bool)
    for text in range(b):
        for i in range(n):
            for j in range(i):
                target[text, i, j] = tokens[text, i] == tokens[text, j]
    return target


def writes(tokens):
    target = pairs(tokens).tril(-1)
    tokens.zero_()
    return target


def compared(model, ablate, layer, head, tokens):
    """Return whether ablating equals zero columns, and the model is whole afterwards."""
    W_o, n_heads = (model.blocks[layer].attention.W_o, model.blocks[layer].attention.n_heads)
    d = W_o.in_features // n_heads
    with torch.no_grad():
        whole = model(tokens)
        with ablate(model, layer, head):
            without = model(tokens)
        after = model(tokens)
        kept = W_o.weight.clone()
        W_o.weight[:, head * d:(head + 1) * d] = 0
        expected = model(tokens)
        W_o.weight.copy_(kept)
    return torch.allclose(without, expected, atol=1e-5), torch.allclose(after, whole, atol=1e-5)


def all_heads(model):
    return [(layer, head) for layer, block in enumerate(model.blocks)
            for head in range(block.attention.n_heads)]


def works(ablate, model):
    tokens = torch.randint(11, (2, 9), generator=torch.Generator().manual_seed(2))
    return all(all(compared(model, ablate, *where, tokens)) for where in all_heads(model))


def head_0_only(ablate, model):
    return all(compared(model, ablate, 0, 0, torch.randint(11, (2, 9))))


def not_afterwards(ablate, model):
    return all(compared(model, ablate, *where, torch.randint(11, (2, 9)))[0]
               for where in all_heads(model)[::-1][:1])


def loss_changes(ablate, model):
    tokens = torch.randint(11, (2, 9))
    before = model(tokens)
    with ablate(model, 1, 1):
        return not torch.equal(model(tokens), before)


RIGHT = {
    "same_character": [lambda tokens: pairs(tokens).tril(-1), by_loops],
    "predict_ablations": [WORSE],
    "ablation_test": [works],
}
WRONG = {
    "same_character": [
        (pairs, "It contains later positions, too"),
        (lambda tokens: pairs(tokens).tril(), "It contains the query itself"),
        (lambda tokens: pairs(tokens).tril(-1).mT, "Queries and keys are exchanged"),
        (lambda tokens: pairs(tokens).triu(1).roll(1, 0), "For the tokens ["),
        (lambda tokens: pairs(tokens).tril(-1).double(),
         "A target must be bool, not torch.float64"),
        (lambda tokens: pairs(tokens)[0], "must return a target (3, 11, 11), not (11, 11)"),
        (lambda tokens: pairs(tokens).tril(-1).any(0).expand(3, -1, -1),
         "All sequences have the same"),
        (lambda tokens: None if tokens is None else "x", "(3, 11, 11), not str"),
        (writes, "It changes the tokens in place"),
    ],
    "predict_ablations": [
        (WORSE | {"induction_on_twice": False}, "cannot find the first"),
        (WORSE | {"brackets_on_twice": True}, "which other head can tell"),
        (WORSE | {"previous_on_closing": True}, "twenty positions ago"),
        (WORSE | {"bracket_on_closing": False}, "What would be lost"),
        (WORSE | {"induction_before_previous": True}, "computed first"),
        (WORSE | {"previous_before_induction": False}, "the previous character of a position"),
        ({**WORSE, "induction_on_twice": None}, "Still open: induction_on_twice"),
        ([True], "The answer must be a dict"),
    ],
    "ablation_test": [
        (lambda ablate, model: True, "11 of 11 wrong ablations pass"),
        (lambda ablate, model: False, "This is a false alarm. The ablation is right"),
        (loss_changes, "wrong ablations pass. One of them overwrites the *output*"),
        (head_0_only, "wrong ablations pass."),
        (not_afterwards, "wrong ablations pass. One of them never removes its hook"),
        (lambda ablate, model: 1, "It must return True or False, not int"),
    ],
}

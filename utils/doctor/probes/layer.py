"""Probes that only a layer allows: its words, its parameters, its weights on request."""

import numpy as np

from utils import reference
from utils.doctor.probes.case import Finding, judge
from utils.doctor.probes.invariants import noise

MANY = 4  # heads


def equals_reference(program, case, weights, n_heads):
    """Is the answer that of ``reference.multi_head_attention`` with the same weights?"""
    memory, = case.words()
    expected, _ = reference.multi_head_attention(
        case.queries, memory, weights, n_heads, case.rule[:, None])
    return judge("reference", case.ask(program), expected, case.tolerance,
                 "It equals the reference.",
                 "It is not the reference: {got}, not {expected} ({where}).",
                 case.rows(case.rule.any(axis=-1)))


def same_words(program, case):
    """Let all words be the same: is every answer the same, whoever asks and whatever is masked?

    An average of equal things is that thing; weights that do not sum to 1 give another answer.
    """
    words = [np.broadcast_to(x[:1, :1], x.shape) for x in case.words()]
    same = case.with_words(words)
    free = same.with_mask(None, True) if case.keep is not None else same
    return judge("same words", same.ask(program), free.ask(program)[:, :1], case.tolerance,
                 "Where all words are the same, so are all answers.",
                 "All words are the same, yet one answer is {got} and another {expected} "
                 "({where}): the weights do not sum to 1.", case.rows(case.rule.any(axis=-1)))


def weights_on_off(program, asking, case):
    """Does asking for the weights, ``asking(x, memory, keep) -> (out, weights)``, leave out be?"""
    return judge("weights on/off", case.ask(asking), case.ask(program), case.tolerance,
                 "Asking for the weights does not change the answer.",
                 "Asked for the weights it answers {got}, otherwise {expected} ({where}).",
                 case.rows(case.rule.any(axis=-1)))


def parameter_count(count, d_in, d_model, d_out=None, biased="qkvo"):
    """Has it as many parameters as three projections and one output? The heads do not matter.

    ``d_out`` defaults to d_in. 3 d_in d_model + d_model d_out, and d_model, of o d_out, for each
    letter of ``biased``.
    """
    d_out = d_in if d_out is None else d_out
    biases = sum(d_out if letter == "o" else d_model for letter in biased)
    expected = 3 * d_in * d_model + d_model * d_out + biases
    ok = count == expected
    sentence = (f"It has {count} parameters, as it should." if ok else
                f"It has {count} parameters; W_q, W_k, W_v, W_o"
                f"{' and their biases' if biased else ''} have {expected}.")
    return Finding("parameter count", ok, count, expected, "", sentence)


def weights_used(layer, case, weights, n_heads):
    """Change a block of a weight: does some answer move, and for the bias of k, none?

    ``layer(x, memory, weights, n_heads, keep) -> out``. The bias of k adds the same to all scores
    of a query, and softmax takes no notice. A block is one head's share of the rows and columns.
    What is zero as a whole is passed over: a bias that is not there.
    """
    def ask(used):
        return case.ask(lambda x, memory, keep: layer(x, memory, used, n_heads, keep))

    before, wrong = ask(weights), []
    there = {name: w for name, w in weights.items() if w.any()}
    other = {name: w + noise(w) for name, w in there.items()}
    for name, index in blocks(there, n_heads):
        changed = weights[name].copy()
        changed[index] = other[name][index]
        gap = np.abs(ask(weights | {name: changed}) - before).max()
        if (gap > case.tolerance) == (name == "b_k"):
            wrong.append(name)
    names = ", ".join(dict.fromkeys(wrong))
    sentence = (f"Some of {names} is not used as it should be: change it, and no answer moves "
                "(or, for b_k, one does)." if wrong else "Every weight has its effect.")
    return Finding("weights used", not wrong, len(wrong), 0, names, sentence)


def blocks(weights, n_heads):
    """Yield (name, index) of each weight's blocks: n_heads by n_heads, and biases whole.

    Of more than MANY heads, the blocks on two diagonals: those of a head itself and of the next.
    """
    for name, w in weights.items():
        if w.ndim == 1:
            yield name, slice(None)
            continue
        rows, columns = (np.array_split(np.arange(n), n_heads) for n in w.shape)
        yield from ((name, np.ix_(row, column)) for n, row in enumerate(rows)
                    for m, column in enumerate(columns)
                    if n_heads <= MANY or (m - n) % n_heads < 2)

"""The exercises of the page with the model that runs in the browser."""

from ._check import Check, Exercise
from ._judges import predictions

HELPERS = {(0, 0), (0, 1), (0, 2)}


def _who_helps(heads):
    """Judge a list of (layer, head), in any order."""
    form = "Write a list of pairs (layer, head), such as [(2, 3), (1, 0)]."
    try:
        given = {tuple(int(number) for number in head) for head in heads}
    except (TypeError, ValueError):
        return form
    if any(len(head) != 2 for head in given):
        return form
    for layer, head in sorted(given):
        if not (0 <= layer < 4 and 0 <= head < 4):
            return f"There is no head {layer}.{head}: layers and heads are counted from 0 to 3."
        if layer == 3:
            return (f"{layer}.{head} is in the last layer, like 3.3. Only earlier layers can "
                    "change what 3.3 reads.")
        if (layer, head) not in HELPERS:
            return f"Without {layer}.{head} alone, the probability of j stays above 0.1."
    missing = len(HELPERS - given)
    return f"Not all heads are there: {missing} more, each ablated alone." if missing else ""


BITS = {1.34: "That is the surprise without the head. By how much has it grown?",
        1.08: "That is the surprise without the head. By how much has it grown?"}

check = Check({
    "who_helps": Exercise(_who_helps, (
        "Ablate one head at a time, and make it work again before the next.",
        "Begin with layer 0. In Python, `chances(text, head)` gives the probabilities without a "
        "head."),
        "Head 3.3 reads what layers 0 to 2 have written, so a test of one head is a test of the "
        "heads before it, too."),
    "two_at_once": Exercise(predictions(
        {"2.1": 1.06, "2.2": 0.79, "both": 9.27, "one shows all": False},
        {"2.1": BITS, "2.2": BITS,
         "both": {1.85: "That is the sum of the two. Ablate both heads in the same pass.",
                  9.56: "That is the surprise without the heads. By how much has it grown?"},
         "one shows all": "Compare `both` with the sum of the other two."}, 0.03), (
        "`chances(text, head)` gives all probabilities without a head. Take −log2 of that of j, "
        "and subtract the same number with all heads.",
        "`chances(text, (2, 1), (2, 2))` ablates two heads at once."),
        "Two heads can replace each other. Then ablating one of them shows little of what it can "
        "do."),
})

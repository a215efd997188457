"""The exercises of the chapter on the Keras layer."""

import numpy as np

from utils.exercises._answers import listed
from utils.exercises._check import Check, Exercise, predictions, untouched
from utils.exercises._keras import encoder, rounded

_PAPER = predictions({"parameters": 36_002, "weights": 210, "depends": {"num_heads"}}, {
    "parameters": {
        35_616: "Those are the matrices. All four products have a bias, too.",
        35_722: "A bias has a number for every feature of *every* head.",
        6_042: "key_dim and value_dim are those of one head. There are six.",
        29_714: "The values have 24 features a head, not 16: W_v and W_o are larger for that.",
        39_842: "Keys and values are made of what is 80 wide.",
        42_672: "output_shape=50: the output is as wide as that, not as the query.",
        28_752: "And the output's matrix, with its bias?", 28_416: "A fourth product follows: W_o.",
        None: "Count four matrices with a bias each: inputs times outputs, plus outputs."},
    "weights": {35: "Each head has weights of its own.",
                36_002: "Not those that are learned: those that softmax makes, a number for each "
                        "query and key.",
                3_360: "A weight belongs to a pair of words, not to a feature.",
                5_040: "A weight belongs to a pair of words, not to a feature.",
                150: "Five queries look at seven keys, not at each other.",
                294: "There are seven keys, but five queries.",
                None: "One number for each head, each query and each key."},
    "depends": "Which of the four appear in the count of weights? A set of names: {\"…\"}."})
_HEARS = predictions({"one": False, "two": True}, {
    "one": "The first block finds the mask on `words`, and uses it.",
    "two": "What has the first block taken off `words`? And Add hands a mask on only if both of "
           "its sides have one."})


def _paper(given):
    if isinstance(given, dict) and isinstance(given.get("depends"), str):
        given = given | {"depends": {given["depends"]}}
    return _PAPER(given)


def _blocks(given):
    if not isinstance(given, dict) or "encoder" not in given:
        return "The answer is a dict with the keys 'one', 'two', 'encoder'."
    rest = dict(given)
    mine = rest.pop("encoder")
    told = "Still open: encoder." if untouched(mine) else encoder(mine)
    return listed([part for part in (_HEARS({name: _bool(said) for name, said in rest.items()}),
                                     told) if part])


def _bool(said):
    return bool(said) if isinstance(said, np.bool_) else said


check = Check({
    "paper": Exercise(_paper, (
        "q is made of 96 numbers and k of 80; each has 6 · 16 features, and as many biases.",
        "v is made of 80 numbers and has 6 · 24 features, and so many does the output read.",
        "Softmax makes a number for each pair of a query and a key, in each head."),
        "Parameters do not depend on how many words there are, and weights on nothing else but "
        "that and the heads."),
    "two_blocks": Exercise(_blocks, (
        "Who reads the mask on `words` in the second block, and who has put it there?",
        "Row 0 of the embedding is the vector of padding: whoever moves when it is changed has "
        "heard padding.",
        "A mask that is handed to each call by name does not depend on what a tensor carries. "
        "Which argument says it of the keys?"),
        "A mask in a variable of your own cannot be taken off a tensor."),
    "rounded": Exercise(rounded, (
        "With 1, 4, 16 and 64 features nothing is lost: which number in the equation is a power of "
        "two just then?",
        "reference.project gives q, k and v, and reference.attention has an argument for that "
        "number.",
        "np.float32 rounds a number to float32; float makes of that a Python number again, and "
        "loses nothing."),
        "One number explains every billionth: what remains is below 1e-12."),
})

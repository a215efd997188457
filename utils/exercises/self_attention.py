"""The exercises of the chapter on self-attention."""

import math

from utils.exercises._check import Check, Exercise
from utils.exercises._parts import parts, value
from utils.exercises._reversal import BOUND, ROOT, hardest, written_down

BOUNDS = {
    math.log(7): "The head divides every score, and c with it.",
    ROOT * math.log(8): "Of eight keys, one is the mirror image. How many must it outweigh?",
    8 * math.log(7): "The head divides by a root, and you by the number under it.",
    math.sqrt(18) * math.log(7): "18 is the width of x. Which width does the head divide by?",
    math.sqrt(6) * math.log(7): "Six columns had the trained head. How many have these?",
    ROOT * math.log(10): "It is not ten letters that compete for the weight, but eight places.",
    7 * ROOT: "To outweigh seven others it needs a *weight* seven times as large, not a score.",
    None: "The mirror image weighs exp(c divided by something), each other place exp(0). What must "
          "the first outweigh, in the worst of strings?"}


def _bound(c):
    if isinstance(c, str):
        return value(BOUND)(c)
    size = "Large enough, but not the least." if c > BOUND else "With that, some strings fail."
    return value(BOUND, {wrong: f"{size} {why}" for wrong, why in BOUNDS.items()}, 0.01)(c)


TIED = {
    "mirrored": value(4, {8: "Then 0 would prefer 7, and 7 prefer 0.",
                          0: "Of two mirrored places, one can prefer the other.",
                          None: "How many pairs of mirrored places are there?"}),
    "letters": value(0.55, {
        0.5: "A place that looks at itself writes its own letter. Is that never the right one?",
        0.6: "Only the half that looks at itself needs luck, one time in ten.",
        1.0: "That would need every place to look at its mirror image.",
        0.1: "That is pure chance, but some places can look at their mirror image.",
        55: "A share is a number from 0 to 1.",
        None: "How many places can look at their mirror image? And how often is a place right that "
              "writes its own letter?"}, 0.01),
    "strings": value(1e-4, {
        0.55 ** 8: "That takes eight letters for eight tosses of one coin. Some are right for "
                   "sure: what is the chance of the others?",
        0.1: "That is the luck of one letter. How many must be lucky in one string?",
        0.55: "That is the share of letters. One wrong letter spoils a string.",
        0.5: "How many letters of a string must be right by luck?",
        0.01: "How many letters of a string must be right by luck?",
        None: "How many letters of a string must be right by luck, one time in ten each?"})}

LEFT = (7, 0, 1, 2, 3, 4, 5, 6)
BEFORE = {
    "picture": value(list(LEFT), {
        (1, 2, 3, 4, 5, 6, 7, 0): "That is the letter *after*. roll(1) moves every letter one "
                                  "place to the right.",
        (7, 6, 5, 4, 3, 2, 1, 0): "That reverses. Place 3 is to answer with the letter of place 2.",
        (0, 1, 2, 3, 4, 5, 6, 7): "Then every place answers with its own letter.",
        (0, 0, 1, 2, 3, 4, 5, 6): "Place 0 is to answer with the *last* letter.",
        (8, 1, 2, 3, 4, 5, 6, 7): "Places are counted from 0.",
        (-1, 0, 1, 2, 3, 4, 5, 6): "Which place is −1? They are counted from 0 to 7.",
        None: "Eight numbers are asked for: at which place does each query look?"}),
    "pairs": value(0, {4: "That is so when it reverses.",
                       None: "Place 3 looks at place 2. Where does place 2 look?"}),
    "one_matrix": value(False, "The inequality forbids nothing here, but symmetry does: what 3 "
                               "scores for 2, 2 scores for 3. Row 3 wants this higher than its "
                               "score for 4. Go on round the circle.")}

check = Check({
    "reversal": Exercise(parts({"matrices": written_down, "c": _bound, "hardest": hardest}), (
        "Letters decide nothing about where to look: which rows of W_q and W_k are zero? And W_v "
        "hands over letters only.",
        "Let every place offer itself, a one-hot row of eight. What must place 0 ask for?",
        "The mirror image then scores c, before the head divides, and seven others 0. They can "
        "outvote it if all seven hold one and the same other letter."),
        "exp(c / √8) must outweigh seven, so c > √8 ln 7. The hardest strings have seven letters "
        "alike and one other; where letters differ, the seven votes are split."),
    "one_for_two": Exercise(parts(TIED), (
        "Mirrored places come in pairs: 0 and 7, 1 and 6, … What does the inequality say of each?",
        "Of each pair, one place looks at the other and is right. The other can do no better than "
        "to look at itself: what does it write?",
        "Half of the letters are right for sure, the other half one time in ten."),
        "Half is certain and half is luck, one in ten: 50 % + 5 %. A whole string needs luck four "
        "times. Two matrices pay for themselves."),
    "letter_before": Exercise(parts(BEFORE), (
        "tokens.roll(1, dims=-1) of abcdefgh is habcdefg. Where does place 3 find its letter?",
        "Two places look at each other if i looks at j and j at i. Follow the places one by one: "
        "which figure do they walk?",
        "With one matrix, s(i, j) = s(j, i). Row i wants s(i, i - 1) > s(i, i + 1) = s(i + 1, i). "
        "Write that down for i = 0 … 7."),
        "Nobody looks back, so the inequality allows it; but scores that grow all the way round a "
        "circle would exceed themselves. Symmetry forbids longer circles too."),
})

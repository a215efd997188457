"""The exercises of the chapter on the scaled dot product."""

from utils.exercises._check import Check, Exercise
from utils.exercises._constant import black_box, hide
from utils.exercises._parts import parts, value

MEANS = ("Only if both means are 0 is var(q k) = var(q) var(k). In general it is E[q²] E[k²] less "
         "E[q]² E[k]².")
LEFT = "To divide a score by √6 divides its variance by 6."
PARTS = {
    "rand all": value(7 / 144, {
        4 / 144: "That is the variance within a row; over all pairs the query varies too.",
        1 / 144: MEANS, 1 / 12: "That is the variance of one feature. And of a product of two?",
        1 / 9: "That is E[q²] E[k²]. A variance is that less the square of the mean.",
        7 / 24: f"That is before the division. {LEFT}",
        7 / 144 / 6 ** 0.5: LEFT, 7 / 864: "Six terms are summed, and their variances add up.",
        1: "That needs features of mean 0 and variance 1.",
        None: "One term q k: E[q²] E[k²] less the square of its mean. For rand, E[q] = 1/2 and "
              "E[q²] = 1/3."}, 0.04),
    "rand row": value(4 / 144, {
        7 / 144: "That is the variance over all pairs. In a row the query is fixed: how much of it "
                 "moves the row as a whole?",
        3 / 144: "That is E[q]² var(k). A fixed feature q multiplies the variance of k by q², and "
                 "the mean of q² is not the square of the mean.",
        1 / 144: "In a row q is a constant: what does it do to the variance of k?",
        1 / 6: f"That is before the division. {LEFT}",
        1 / 12: "That is the variance of k alone; each feature of it is multiplied by one of q.",
        None: "In a row q is a constant, so a term q k has the variance q² var(k). On average?"},
        0.1),
    "randn all": value(1.0, {6.0: f"That is before the division. {LEFT}",
                             None: "The chapter's first section has it."}),
    "randn row": value(1.0, {6.0: f"That is before the division. {LEFT}",
                             0: "The keys still differ.",
                             None: "In a row, a term has the variance q² var(k). The mean of q²?"}),
    "softmax sees": value("row", {
        "all": "What softmax ignores is what a whole row shares.",
        None: 'Is it "all" or "row"?'}),
    "rand factor": value(1.6, {
        1.1: "That is exp(3 · 4/144). The spread of scores is the *root* of their variance.",
        1.94: "That is what the variance over all pairs would give. A row shares one query.",
        3.4: "That is what comes without the division by √6.",
        15: "That is as for randn. With rand the scores of a row spread less.",
        None: "The largest of nine is about three standard deviations above the smallest, and a "
              "ratio of weights is exp of a difference."}, 0.15),
    "randn factor": value(15.0, {
        1.6: "That is as for rand. With randn the scores of a row have variance 1.",
        3.0: "That is the difference of the *scores*.",
        1000: "That is what comes without the division by √6.",
        None: "The largest of nine is about three standard deviations above the smallest, and a "
              "ratio of weights is exp of a difference."}, 0.5)}

check = Check({
    "test_data": Exercise(parts(PARTS), (
        "For one term, var(q k) = E[q²] E[k²] − E[q]² E[k]². Six terms are added, and the sum is "
        "divided by √6.",
        "For rand, E[q] = 1/2, E[q²] = 1/3, and so the variance of a feature is 1/12. In a row, q "
        "is a constant, and its square on average 1/3.",
        "A typical row of nine spreads over about three standard deviations, from the smallest to "
        "the largest; the ratio of two weights is exp of the difference of their scores."),
        "Of 7/144, softmax never sees 3/144, which move whole rows. What is left, 4/144, makes all "
        "weights nearly alike, so on rand nearly any divisor passes a loose test."),
    "hide": Exercise(hide, (
        "The undivided program must start with the scores of the divided one: how much shorter "
        "must q be?",
        "Write p = q / √d_k for the queries of the undivided program. When the divided one moves q "
        "by rate times dL/dq, how far should p move?",
        "A step of p is a step of q times something, and dL/dq is dL/dp times something. Both are "
        "the same something."),
        "The shorter start hides the constant from the scores, the smaller steps hide it from the "
        "gradient, where it counts twice. Whoever sets both can absorb any constant."),
    "black_box": Exercise(black_box, (
        "If v is the identity matrix, the context *is* the weights.",
        "The log of a weight is its score less the log of the row's sum, which all keys of a row "
        "share. Take differences between keys, or take off the mean.",
        "Take the mean off q · k too. Then the logs are a multiple of it: which, if the program "
        "divides by c?"),
        "The logs of the weights are the scores but for one number a row: a softmax hides next to "
        "nothing. `utils.doctor` reads a scale in this way."),
})

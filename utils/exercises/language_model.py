"""The exercises of the chapter on the language model."""

from utils.exercises._check import Check, Exercise, predictions
from utils.exercises._nucleus import nucleus

TELLS = predictions(
    {"training": False, "held_out": False, "noise": True, "text": True, "leaks": True,
     "chunks": True}, {
        "training": "The answer stands in the input. Is that another input in training?",
        "held_out": "A passage held out is given whole, too, and asked at all its places at once.",
        "noise": "Nobody can foretell a random character. What does a model do that sees it?",
        "text": "While it writes, the next character is not there yet. Whence should it copy?",
        "leaks": "It changes a later place and looks whether an earlier output moves.",
        "chunks": "Read whole, each place sees what comes after it. Read one by one?"})
NEEDED = predictions(
    {"muon": True, "adamw": True, "step": True, "generator": True, "history": False,
     "torch_seed": False}, {
        "muon": "It keeps an average of the earlier gradients. Where does a new one begin?",
        "adamw": "It keeps two averages of the earlier gradients. Where does a new one begin?",
        "step": "What is the learning rate at step 5 of 8? And at step 0?",
        "generator": "Which batches are drawn after step 5, and which by a generator that is new?",
        "history": "Who reads it: the next step, or only you?",
        "torch_seed": "Who draws from PyTorch's own generator after the model has been made? There "
                      "is no dropout, and the batches have a generator of their own."})

check = Check({
    "which_number_tells": Exercise(TELLS, (
        "In which of the six is the next character in the model's input while it is asked for?",
        "A leak shows where the next character is asked for and not given, or where the same "
        "places are read once with what follows them and once without."),
        "Bits on a fixed text, training or held out, cannot tell: both hand the answer over. What "
        "tells is to ask without the answer, or to change the future."),
    "what_must_be_saved": Exercise(NEEDED, (
        "Go through training.one_step line by line. What does it read that it, or an earlier step, "
        "has written?",
        "Try it: leave a part out of training.load and compare the weights at the end."),
        "All that a step reads and changes: the weights, both optimisers, the step and the "
        "generator."),
    "nucleus": Exercise(nucleus, (
        "Sort the probabilities of a row, from the largest down, and add them up.",
        "A token stays if those *before* it do not yet add up to p. So one always stays.",
        "scatter, or a second argsort, brings what was sorted back to its place; then divide by "
        "the sum."),
        "Where the model is sure, one token stays; where it is not, many do. A fixed number, as in "
        "top-k, cannot do both."),
})

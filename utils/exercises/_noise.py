"""The judge of an exercise on the decoder's mask: a probe for whole training scripts."""

import math

import numpy as np

from utils.checks import to_numpy
from utils.exercises._answers import listed, same
from utils.exercises._check import predictions, untouched

STEPS = 150
LOADER = predictions({"pairs": 0, "loss": 0}, {
    "pairs": {21: "leaks asks the program alone, and that is right.",
              6: "Off by one is heard at six pairs; but here the mask is right.",
              None: "Every place may see itself. Does any hear a later one?"},
    "loss": "At place i it is asked for letter i, and letter i is what it is given."}, 0.05)


def noise(given):
    """Judge what noise says of a loader, and a probe that asks scripts."""
    if not isinstance(given, dict) or "cheats" not in given:
        return "The answer is a dict with the keys 'pairs', 'loss', 'cheats'."
    rest = dict(given)
    cheats, loss = rest.pop("cheats"), rest.get("loss")
    if not untouched(loss) and same(loss, 0.05, 1):  # as good as 0
        rest["loss"] = 0
    told = "Still open: cheats." if untouched(cheats) else _probe(cheats)
    return listed([part for part in (LOADER(rest), told) if part])


def _probe(cheats):
    """Return what is wrong with a probe, "" if it tells all scripts apart."""
    asked = []
    first = to_numpy(cheats(Script(asked)))
    if first.size != 1 or first.dtype == object:
        return "cheats: it should return True or False."
    if not asked:
        return "cheats: it never runs the script."
    if min(asked) < 2:
        return "cheats: noise needs at least two letters."
    alarms = [name for name, how in HONEST.items() if any(_runs(cheats, asked, how))]
    missed = [name for name, how in CHEATS.items() if not all(_runs(cheats, asked, how))]
    V = asked[-1]
    if len(alarms) == len(HONEST) and len(missed) == len(CHEATS):
        return "cheats: it is upside down. True means: has seen the answers."
    if len(alarms) == len(HONEST):
        return (f"cheats: it calls every script a cheat, honest ones, too. With V = {V} these end "
                f"near ln V = {math.log(V):.2f} (in nats), and some of their steps below that.")
    if missed and _steps(V) > 100:
        return (f"cheats: with V = {V:,} it misses cheats, because even these are only half-way "
                f"after {_steps(V):.0f} of 150 steps. Fewer letters are learned sooner.")
    lines = [f"A false alarm for a script that is honest {name}: {WHY[name]}" for name in alarms]
    lines += [f"It misses {name}: {WHY[name]}".replace("DROP", f"{math.log(V) / 16:.2f}")
              for name in missed]
    return listed(lines)


def _runs(cheats, asked, how):
    """Return what the probe says of five runs of one script."""
    return [bool(cheats(Script(asked, run, **how))) for run in range(5)]


HONEST = {"with large batches": {"worse": 0.0},
          "with small batches": {"spread": 0.08, "worse": 0.015},
          "and slow to settle": {"slow": 30, "worse": 0.01}}
CHEATS = {"one that learns every answer": {"share": 0},
          "a mask upside down": {"share": 1 / 8},
          "a LayerNorm over time": {"below": 1},
          "a leak at one place of eight": {"share": 15 / 16},
          "a small leak that is found late": {"share": 15 / 16, "begins": 60},
          "a small leak in small batches": {"share": 15 / 16, "spread": 0.08}}
WHY = {
    "with large batches": "its last losses lie around ln V, some of them below. Leave a margin.",
    "with small batches": "the loss of one step is noise, and some steps lie well below ln V. "
                          "Average many of them.",
    "and slow to settle": "it begins far above ln V and comes down to it.",
    "one that learns every answer": "it gets to 0 as soon as it has learned to copy. What counts "
                                    "is the end.",
    "a mask upside down": "it cannot get to 0, as one place has no next letter to copy.",
    "a LayerNorm over time": "it only guesses among fewer letters, and ends about 1 below ln V.",
    "a leak at one place of eight": "it can gain ln V / 8 and has learned half of that: DROP. A "
                                    "smaller margin, or more letters.",
    "a small leak that is found late": "it is honest for 60 steps, and gains DROP in the end. That "
                                       "is what counts.",
    "a small leak in small batches": "it gains DROP, and single steps hide that. Average many, or "
                                     "take more letters."}


def _steps(letters):
    """Return after how many steps the chapter's model is half-way, as measured for 4 to 1000."""
    return 8 * max(letters, 2) ** 0.25


class Script:
    """The losses of a training script on noise, drawn as those of the chapter's model fall.

    ``share`` of ln V is where it ends, ``below`` how much under that (of what is there at most),
    ``begins`` the step at which it finds the leak; ``worse``: an honest model that is too sure of
    itself is that much above; ``slow``: its steps until then; ``spread``: the noise of its batches.
    """

    def __init__(self, asked, run=0, share=1.0, below=0.0, begins=0, worse=0.01, slow=4,
                 spread=0.01):
        self.asked, self.run, self.share, self.below, self.begins = asked, run, share, below, begins
        self.worse, self.slow, self.spread = worse, slow, spread

    def __call__(self, letters):
        """Return the losses of 150 steps, in nats."""
        self.asked.append(letters)
        chance, step, half = math.log(max(letters, 2)), np.arange(STEPS), _steps(letters)
        end = max(chance * self.share - min(self.below, 0.8 * chance), 0.005)
        known = 1 / (1 + np.exp(-4 * (step - self.begins - half) / half))
        curve = chance + (end - chance) * known + self.worse + 0.5 * np.exp(-step / self.slow)
        rng = np.random.default_rng([int(letters), self.run])
        return np.maximum(curve + self.spread * rng.standard_normal(STEPS), 0.001)

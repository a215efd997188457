"""Judge of `cheats` in the chapter on the decoder's mask: a probe for whole training scripts."""

import math

import numpy as np

from utils.checks import to_numpy
from utils.exercises._judges import join_messages

STEPS = 150
# {name: (options of Script, what to think of)}
HONEST = {
    "with large batches": ({"worse": 0.0}, (
        "its last losses are close to ln V, some of them below. Leave a margin.")),
    "with small batches": ({"spread": 0.08, "worse": 0.015}, (
        "the loss of one step is noisy, and some steps are well below ln V. Average many of "
        "them.")),
    "and slow to settle": ({"slow": 30, "worse": 0.01}, (
        "its loss begins far above ln V and then falls to it."))}
CHEATS = {
    "one that learns every answer": ({"share": 0}, (
        "its loss is 0 once it has learned to copy. Look at the end of training.")),
    "an inverted mask": ({"share": 1 / 8}, (
        "its loss cannot reach 0, as one position has no next letter to copy.")),
    "a LayerNorm over time": ({"below": 1}, (
        "it only guesses among fewer letters, so its loss ends about 1 below ln V.")),
    "a leak at one position of eight": ({"share": 15 / 16}, (
        "it can gain ln V / 8 and has learned half of that: GAIN. Use a smaller margin, or more "
        "letters.")),
    "a small leak that is found late": ({"share": 15 / 16, "begins": 60}, (
        "it is honest for 60 steps, and gains GAIN at the end. Look at the end of training.")),
    "a small leak in small batches": ({"share": 15 / 16, "spread": 0.08}, (
        "it gains GAIN, less than the noise of single steps. Average many steps, or use more "
        "letters."))}


def cheats(probe):
    """Return what is wrong with a probe, "" if it tells all cheats from all honest scripts."""
    asked = []
    first = to_numpy(probe(Script(asked)))
    if first.size != 1 or first.dtype == object:
        return "it must return True or False."
    if not asked:
        return "it never runs the script."
    if min(asked) < 2:
        return "noise needs at least two letters."
    alarms = [name for name, (how, _) in HONEST.items() if any(_results(probe, asked, how))]
    missed = [name for name, (how, _) in CHEATS.items() if not all(_results(probe, asked, how))]
    V = asked[-1]
    if len(alarms) == len(HONEST) and len(missed) == len(CHEATS):
        return "its result is inverted: True must mean that the script has seen the answers."
    if len(alarms) == len(HONEST):
        return (f"it calls every script a cheat, even honest ones. With V = {V} the honest ones "
                f"end near ln V = {math.log(V):.2f} (in nats), and some of their steps below that.")
    if missed and _half_way(V) > 100:
        return (f"with V = {V:,} it misses cheats, because these are only half-way after "
                f"{_half_way(V):.0f} of 150 steps. A model learns fewer letters sooner.")
    lines = [f"This is a false alarm for a script that is honest {name}: {HONEST[name][1]}"
             for name in alarms]
    for name in missed:
        line = f"It misses {name}: {CHEATS[name][1]}"
        lines.append(line.replace("GAIN", f"{math.log(V) / 16:.2f}"))
    return join_messages(lines)


def _results(probe, asked, how):
    """Return the results of a probe for five runs of one script."""
    return [bool(probe(Script(asked, run, **how))) for run in range(5)]


def _half_way(letters):
    """Return after how many steps the chapter's model is half-way, as measured for 4 to 1000."""
    return 8 * max(letters, 2) ** 0.25


class Script:
    """A training script on noise: returns losses that fall as those of the chapter's model do.

    The loss ends at ``share`` of ln V, or at ``below`` less than ln V; it falls from the step
    ``begins`` on. ``worse`` is added to all losses, since an honest model is a little
    overconfident; ``slow`` is the number of steps until ln V, ``spread`` the noise of its batches.
    """

    def __init__(self, asked, run=0, share=1.0, below=0.0, begins=0, worse=0.01, slow=4,
                 spread=0.01):
        self.asked, self.run, self.share, self.below, self.begins = asked, run, share, below, begins
        self.worse, self.slow, self.spread = worse, slow, spread

    def __call__(self, letters):
        """Return the losses of 150 steps, in nats."""
        self.asked.append(letters)
        chance, step, half = math.log(max(letters, 2)), np.arange(STEPS), _half_way(letters)
        end = max(chance * self.share - min(self.below, 0.8 * chance), 0.005)
        known = 1 / (1 + np.exp(-4 * (step - self.begins - half) / half))
        curve = chance + (end - chance) * known + self.worse + 0.5 * np.exp(-step / self.slow)
        rng = np.random.default_rng([int(letters), self.run])
        return np.maximum(curve + self.spread * rng.standard_normal(STEPS), 0.001)

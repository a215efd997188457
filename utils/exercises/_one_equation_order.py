"""The judge of `any_order` in chapter `one_equation`: a sum in any order."""

import math
import random
from numbers import Real

TERMS = ([math.sin(n) * math.cos(n * n) for n in range(1, 13)],
         [1e32, 1e16, 3.0, 1.0, -0.5, -1e16, -1e32],
         [(-1) ** n * 10.0 ** (n % 9) / (n + 3) for n in range(40)], [0.3, 0.7, -0.7])


def judge_sum(mine):
    """Judge a reader's sum, which must not depend on the order of its terms."""
    if mine is math.fsum or "fsum" in getattr(getattr(mine, "__code__", None), "co_names", ()):
        return "this uses fsum again; your own sum must do without it."
    return next(filter(None, (_sums(mine, terms) for terms in TERMS)), "")


def _why(mine):
    """Return why a sum depends on the order of its terms."""
    small, large = 2.0 ** -53, 1.0
    if mine([large, small, small]) == mine([small, small, large]):
        return ("So the order still matters. Compensation makes rounding errors smaller, and does "
                "not remove them. If you sort, no two different terms may count as equal, as 1 and "
                "-1 do by their size.")
    return ("The terms are added in the order in which they come, and each addition rounds: "
            "(a + b) + c and a + (b + c) can differ in the last digit.")


def _sums(mine, terms):
    """Return what is wrong with the sums of these terms in 100 orders, "" if nothing is."""
    rng, sums = random.Random(0), []
    for _ in range(100):
        total = mine(rng.sample(terms, len(terms)))
        total = total.item() if getattr(total, "ndim", None) == 0 else total
        if not isinstance(total, Real):
            return f"it returns {type(total).__name__}, not a number."
        sums.append(float(total))
    size = sum(map(abs, terms))
    error = max(abs(total - math.fsum(terms)) for total in sums)
    allowed = len(terms) * 2.0 ** -52 * size
    if not error < 1e-3 * size:
        return f"the sum of {len(terms)} numbers is wrong by up to {error:.1g}."
    if len(set(sums)) > 1:
        return (f"100 orders of the same {len(terms)} numbers, from {min(terms):.3g} to "
                f"{max(terms):.3g}, give {len(set(sums))} different sums. {_why(mine)}")
    if error > allowed:
        return (f"the order no longer matters, but digits are lost: the error is {error:.0e}, and "
                f"plain addition has at most {allowed:.0e}.")
    return ""

"""The switches of a kernel: the faults that it can show."""

from typing import NamedTuple

from .._search import Switch
from ..faulty.kernel import BATCH, HEADS, KEYS, QUERIES, Band, Masking
from . import designs

BANDS = (("causal off by one", Band(None, 1), "a query attends to the key after its own, too"),
         ("causal off by one", Band(None, -1), "a query does not attend to its own key"),
         ("causal mask inverted", Band(-1, None), "a query attends only to later keys"),
         ("causal mask inverted", Band(0, None), "a query attends only to its own and later keys"),
         ("no causal mask", Band(), ""))


# It shows only where n_q == n_k, and only a mask that differs between queries shows it.
TRANSPOSED = Switch("mask transposed", {"masking": Masking("transpose", "keep")})


class Options(NamedTuple):
    """What the options say of a kernel: is it causal by itself, and with which alignment?"""

    causal: bool = False
    align: str = "top_left"
    square: bool = False     # only n_q == n_k: causal, with unknown alignment
    grouped: bool = False
    parts: dict = {}  # noqa: RUF012  # of today's models, as for ``designs.promised``

    def settings(self):
        """Return the settings of ``faulty.kernel.attention`` that are right for the kernel."""
        found = {"band": Band(None, 0) if self.causal else Band(), "align": self.align}
        return found | designs.promised(self.parts)[0]

    def masked_parts(self):
        """Return which parts of its mask a program may use wrongly, as for ``Masking``."""
        return ("both", "keep", "causal") if self.causal else ("keep",)


def switches(form, options):
    """Return the Switches that a kernel of this form can show."""
    found = [Switch("no scale", {"scale": "none"}),
             Switch("scale by sqrt(d_model)", {"scale": "model"}),
             Switch("scaled twice", {"scale": "twice"}),
             Switch("constant scale", {"scale": "inverse"}, "the scale is √d"),
             Switch("softmax over queries", {"axes": (QUERIES,)}),
             Switch("softmax over heads", {"axes": (HEADS,)}),
             Switch("softmax over heads and keys", {"axes": (HEADS, KEYS)}),
             Switch("softmax over batch", {"axes": (BATCH,)})]
    if form.square:
        found.append(Switch("q and k swapped", {"roles": "kqv"}))
    if form.equal_features:
        found.append(Switch("k and v swapped", {"roles": "qvk"}))
    if form.grouped:
        found.append(Switch("tile for repeat", {"tile": True}))
    if options.causal:
        found += [Switch(name, {"band": band}, detail) for name, band, detail in BANDS]
        if not form.square:
            other = "bottom_right" if options.align == "top_left" else "top_left"
            found.append(Switch("other causal alignment", {"align": other}))
    found += designs.promised(options.parts)[1] + _maskings(options)
    own = Masking(part="causal")  # without a mask that is passed, a mistake is with its own
    return [switch for switch in found
            if form.masks != "none" or switch.settings.get("masking", own).part == "causal"]


def rare(square, one_head=False):
    """Return Switches that are in no homework, as hardly anybody means them; square: n_q == n_k."""
    found = [Switch("constant scale", {"scale": "keys"}, "the scale is 1/√n, of n keys"),
             Switch("constant scale", {"scale": "times model"}, "the scale is √(h·d)")]
    if not one_head:
        found.append(Switch("constant scale", {"scale": "heads"}, "the scale is 1/√h, of h heads"))
    roots = {"right": "√d"} if one_head else {"right": "√d", "model": "√d_model"}
    for name, root in roots.items():
        found += [Switch("scaled after softmax", {"divided": name}, f"each row sums to 1/{root}"),
                  Switch("scaled after softmax", {"divided": name, "scale": "none"},
                         f"each row sums to 1/{root}, and the scores are not divided")]
    return [*found, Switch("weights not used", {"own": True})] if square else found


def _maskings(options):
    """Return the Switches of mistakes with a mask."""
    parts = options.masked_parts()
    found = [Switch("mask ignored", {"masking": Masking("ignore", "keep")})]
    found += [Switch("mask inverted", {"masking": Masking("invert", part)}) for part in parts[:2]]
    for part in parts:
        found.append(Switch("mask after softmax", {"masking": Masking("after", part)}))
        found += [Switch("mask added as 0/1", {"masking": Masking("add", part, value, scaled)})
                  for value in (-1.0, 1.0) for scaled in (False, True)]
    return found

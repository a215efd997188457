"""The switches of a kernel: the faults that it can show."""

from typing import NamedTuple

from utils.doctor._search import Switch
from utils.doctor.faulty.kernel import BATCH, HEADS, KEYS, QUERIES, Band, Hiding

BANDS = (("causal off by one", Band(None, 1), "it sees one key too many"),
         ("causal off by one", Band(None, -1), "it sees one key too few"),
         ("causal mask inverted", Band(-1, None), "it sees only what comes after"),
         ("causal mask inverted", Band(0, None), "it sees only itself and what comes after"),
         ("no causal mask", Band(), ""))


class Options(NamedTuple):
    """What the reader has said about the kernel: a causal mask by itself, from which corner."""

    causal: bool = False
    corner: str = "top_left"
    square: bool = False     # only n_q == n_k: with a causal mask whose corner nobody has said
    grouped: bool = False

    def settings(self):
        """Return the settings of ``faulty.attention`` that are right for it."""
        return {"band": Band(None, 0) if self.causal else Band(), "corner": self.corner}


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
            other = "bottom_right" if options.corner == "top_left" else "top_left"
            found.append(Switch("other corner", {"corner": other}))
    return [switch for switch in found + _hidings(options)
            if not form.unmasked or not _on_keep(switch)]


def _on_keep(switch):
    """Return whether a switch is of what is done with keep, and not by the program itself."""
    return "hiding" in switch.settings and switch.settings["hiding"].part != "causal"


def _hidings(options):
    """Return the Switches of what can be done with a mask."""
    parts = ("both", "keep", "causal") if options.causal else ("keep",)
    found = [Switch("mask ignored", {"hiding": Hiding("ignore", "keep")})]
    found += [Switch("mask inverted", {"hiding": Hiding("invert", part)}) for part in parts[:2]]
    for part in parts:
        found.append(Switch("mask after softmax", {"hiding": Hiding("after", part)}))
        found += [Switch("mask added as 0/1", {"hiding": Hiding("add", part, value, scaled)})
                  for value in (-1.0, 1.0) for scaled in (False, True)]
    return found

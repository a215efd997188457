"""Which switches need not be a fault, but may show how a module stores its weights."""

from .levels.layer_switches import WITHIN
from .modules import guess, slots

ORDERS = {"packed order", "interleaved packing"}  # faults that a wrong guess of the roles implies


def without_assumptions(found, module):
    """Return (found, notes) without the switches that assume how a module stores its weights.

    ``found``: sets of Switches, each of which explains all answers. Each note names a switch and
    what it assumes.
    """
    transposed = _unsure(found, module)

    def assumption(switch):
        if transposed.issuperset(switch.settings.get("transposed", "?")):
            return "its square parameters are stored as nn.Linear or Dense would store them"
        if switch.settings.get("reading", [()])[0] == WITHIN:
            return "the dimensions of each head are stored side by side"
        if switch.fault in ORDERS and module.guessed and not (
                switch.fault == "packed order" and _named(module)):
            return "the roles are as guessed"
        return ""

    shown = [switch for switch in found[0] if assumption(switch)] if found else []
    if not shown:
        return found, []
    notes = [f"If {assumption(switch)}, it has this fault: {switch.fault} ({switch.detail}). If it "
             "stores them in another way on purpose, nothing is wrong." for switch in shown]
    rest = [tuple(switch for switch in some if not assumption(switch)) for some in found]
    return rest if all(rest) else [()], notes


def _named(module):
    """Return whether the names of its parts say which of them hold q, k and v."""
    (d_model, n_heads, _), built = next(iter(module.built.items()))
    its_slots = guess.guess(built, d_model, n_heads, module.wide)
    return set("qkv") <= {slot.letters for slot in its_slots
                          if guess.letter(slot.name) == slot.letters}


def _unsure(found, module):
    """Return the set of letters whose weights may be stored transposed on purpose."""
    tried = [switch for some in found for switch in some if "transposed" in switch.settings]
    if module.roles_problem or not tried:
        return set()
    (d_model, n_heads, _), built = next(iter(module.built.items()))
    its_slots = module.slots_given
    if module.guessed:
        its_slots = guess.guess(built, d_model, n_heads, module.wide)
    return set(slots.unsure(built, its_slots))

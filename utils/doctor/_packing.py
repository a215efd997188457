"""Which switches need not be a fault, but may show how a module stores its weights."""

from ._search import Switch
from .levels.layer_switches import WITHIN
from .modules import guess

# Faults that a wrong guess of the roles implies.
ORDERS = {"packed order", "wrong projection", "interleaved packing"}


def by_name(found, module):
    """Return sets of Switches with "wrong projection" for "packed order" where nothing is packed.

    That is so in a ``module`` with separate parts for q, k and v. Of a function (module is None),
    it is known only where two of them are made with the same weights.
    """
    its_slots = module.held if module else ()
    if any(len(slot.letters) > 1 for slot in its_slots) or (module and not its_slots):
        return found
    names = {slot.letters: f"“{slot.name}”" for slot in reversed(its_slots)}

    def named(switch):
        order = switch.settings.get("order", "qkv") if switch.fault == "packed order" else "qkv"
        if order == "qkv" or not (its_slots or len(set(order)) < 3):
            return switch
        made = [f"{role} is made with the projection {names.get(letter, f'of {letter}')}"
                for role, letter in zip("qkv", order, strict=True) if role != letter]
        return Switch("wrong projection", switch.settings, " and ".join(made))

    return [tuple(map(named, some)) for some in found]


def without_assumptions(found, module):
    """Return (found, notes) without the switches that assume how a module stores its weights.

    ``found``: sets of Switches, each of which explains all answers. Each note names a switch and
    what it assumes.
    """
    # The letters whose parts are named after them.
    named = {slot.letters for slot in module.held if guess.letter(slot.name) == slot.letters}

    def assumption(switch):
        if set(module.unsure).issuperset(switch.settings.get("transposed", "?")):
            return "square ones are stored as nn.Linear or Dense would store them"
        if switch.settings.get("reading", [()])[0] == WITHIN:
            return "the dimensions of each head are stored side by side"
        if switch.fault in ORDERS and module.guessed and (
                switch.fault == "interleaved packing" or not named.issuperset("qkv")):
            return "they hold q, k and v in the order that was guessed"
        return ""

    shown = [switch for switch in found[0] if assumption(switch)] if found else []
    if not shown:
        return found, []
    notes = [f"It reads its weights as with the fault {switch.fault} ({switch.detail}). Trained "
             "from scratch, such a program is right; with weights from elsewhere, it is wrong if "
             f"{assumption(switch)}." for switch in shown]
    rest = [tuple(switch for switch in some if not assumption(switch)) for some in found]
    return rest if all(rest) else [()], notes

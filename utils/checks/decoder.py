"""Checks of the arguments of ``utils.models.decoder``."""

PLACES = ("before_attention", "after_attention", "before_feed_forward", "after_feed_forward")


def places(norms):
    """Raise ValueError unless the keys of ``norms`` are places of a norm in a block."""
    if wrong := [place for place in norms if place not in PLACES]:
        raise ValueError(f"a norm must be in one of the places {', '.join(PLACES)}, got "
                         f"{', '.join(map(str, wrong))}")

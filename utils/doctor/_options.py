"""Options of the doctor's command whose value is a text with several parts."""

import argparse

from .levels import designs


def roles(text):
    """Return {"q": name, …} from "q=name,…". Raises ArgumentTypeError for anything else."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if any(letter not in ("q", "k", "v", "o") or not name for letter, _, name in pairs):
        raise argparse.ArgumentTypeError(f"expected q=NAME,k=NAME,v=NAME,o=NAME, got {text!r}")
    return {letter: name for letter, _, name in pairs}


def parts(text):
    """Return the ``parts`` of the doctor from "rope=halves,window=4".

    Raises ArgumentTypeError for a part or value that is not known.
    """
    found = {}
    for name, equals, value in (pair.partition("=") for pair in text.split(",")):
        first, colon, base = value.partition(":")
        try:
            if name == "window":
                found[name] = int(value)
            elif name in ("rope", "qk_norm"):
                found[name] = (first, float(base)) if colon else first
            else:
                found[name] = float(value) if equals else None
            designs.promised({name: found[name]})
        except (TypeError, ValueError) as error:
            raise argparse.ArgumentTypeError(f"{name}={value}: {error}") from None
    return found

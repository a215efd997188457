"""What differs between the layers of a configuration: windows, and how q and k are rotated."""

import numbers
from typing import NamedTuple

from ..checks import cache as cache_checks
from .families import BASES, GPT_OSS_ROPE, LOCAL_BASES
from .rotation import SCALINGS, Rotation, frequencies

FULL, LOCAL = "full_attention", "sliding_attention"
OLDER = ("rope_theta", "rope_scaling")  # before rope_parameters


class Layer(NamedTuple):
    """What may differ between layers: a ``window`` of tokens, a ``Rotation``; None = without."""

    window: int | None
    rotation: Rotation | None


def listed(fields, names):
    """Return "name=value, …" of some fields."""
    return ", ".join(f"{name}={fields[name]!r}" for name in names)


def layers(kind, family, fields, n_layers, d_head):
    """Return a ``Layer`` for each layer."""
    rotated = _rotated(fields, n_layers)
    kinds = _kinds(kind, family, fields, n_layers, rotated)
    rotations = _rotations(kind, family, fields)
    for rotation in rotations.values():
        frequencies(rotation, d_head)  # raises here, and not when the model is called
    window = fields.get("sliding_window")
    if LOCAL in kinds:
        if window is None or not fields.get("use_sliding_window", True):
            raise ValueError("a layer has sliding_attention, but the configuration has "
                             + listed({**fields, "sliding_window": window}, [
                                 name for name in ("sliding_window", "use_sliding_window")
                                 if name in {**fields, "sliding_window": 0}]))
        cache_checks.window(window)
    return tuple(Layer(window if of == LOCAL else None, rotations[of] if turned else None)
                 for of, turned in zip(kinds, rotated, strict=True))


def _rotated(fields, n_layers):
    """Return for each layer whether its q and k are rotated."""
    if "no_rope_layers" not in fields:
        return [True] * n_layers
    told, every = fields["no_rope_layers"], fields["no_rope_layer_interval"]
    if told is None:
        return [(n + 1) % every != 0 for n in range(n_layers)]
    if len(told) < n_layers:
        raise ValueError(f"no_rope_layers must have {n_layers} entries, got {len(told)}")
    return [bool(has) for has in told[:n_layers]]


def _kinds(kind, family, fields, n_layers, rotated):
    """Return full_attention or sliding_attention for each layer."""
    told = fields.get("layer_types")
    if told is not None:
        if other := sorted({*told} - {FULL, LOCAL}):
            raise ValueError(f"layer_types must be {FULL} or {LOCAL}, got {', '.join(other)}")
        if len(told) != n_layers:
            raise ValueError(f"layer_types must have {n_layers} entries, got {len(told)}")
        return list(told)
    used = fields.get("sliding_window") is not None and fields.get("use_sliding_window", True)
    if kind == "mistral":
        local = [used] * n_layers
    elif kind == "smollm3":
        local = [used and not has for has in rotated]
    elif "max_window_layers" in fields:
        local = [used and n >= fields["max_window_layers"] for n in range(n_layers)]
    else:
        period = fields.get("sliding_window_pattern", family.period)
        if fields.get("_sliding_window_pattern", period) != period:
            raise ValueError(f"sliding_window_pattern={period}, but _sliding_window_pattern="
                             f"{fields['_sliding_window_pattern']}: pass layer_types")
        local = [period is not None and (n + 1) % period != 0 for n in range(n_layers)]
    return [LOCAL if is_local else FULL for is_local in local]


def _rotations(kind, family, fields):
    """Return the ``Rotation`` of layers with full_attention and with sliding_attention."""
    told, base = fields["rope_parameters"], BASES.get(kind, 10_000.0)
    older = [name for name in (*OLDER, "rope_local_base_freq") if fields.get(name) is not None]
    nested = told is not None and {FULL, LOCAL} & {*told}
    if told is not None and bool(nested) != family.by_kind:
        shape = f"a dict for {FULL} and one for {LOCAL}" if family.by_kind else "one dict"
        raise ValueError(f"rope_parameters of {kind} must be {shape}, got {told}")
    if told is not None and older:
        raise ValueError(f"{listed(fields, older)} beside rope_parameters={told}: pass one of "
                         "both")
    if told is not None:
        if nested and (other := {*told} - {FULL, LOCAL}):
            raise ValueError(f"rope_parameters has {', '.join(sorted(other))} beside {FULL} and "
                             f"{LOCAL}")
        full, local = (told.get(FULL), told.get(LOCAL)) if nested else (told, told)
    else:
        full = {**(fields.get("rope_scaling") or {})}
        if kind == "gpt_oss" and not full:
            full = {**GPT_OSS_ROPE}
        full.setdefault("rope_theta", fields.get("rope_theta") or base)
        local = {"rope_theta": fields.get("rope_local_base_freq")} if family.by_kind else full
        if kind == "olmo3" and full["rope_theta"] != base:
            raise ValueError(f"rope_theta={full['rope_theta']} of olmo3: say in rope_parameters "
                             f"whether it holds for {FULL}, for {LOCAL} or both")
    bases = {FULL: base, LOCAL: LOCAL_BASES.get(kind, base)}
    return {of: _rotation(told or {}, bases[of], fields, family.by_kind)
            for of, told in ((FULL, full), (LOCAL, local))}


def _rotation(told, base, fields, family_by_kind):
    """Return the ``Rotation`` of a dict such as {"rope_type": "linear", "factor": 8.0}."""
    options = {name: value for name, value in told.items() if value is not None}
    base = options.pop("rope_theta", base)
    kinds = {options.pop(name) for name in ("rope_type", "type") if name in options} or {"default"}
    kind = ", ".join(sorted(kinds))
    if kind not in SCALINGS:
        raise ValueError(f"rope_type must be one of {', '.join(SCALINGS)}, got {kind}")
    needed, more = SCALINGS[kind]
    if "original_max_position_embeddings" in needed:
        options.setdefault("original_max_position_embeddings", fields["max_position_embeddings"])
    if missing := [name for name in needed if name not in options]:
        raise ValueError(f"RoPE of rope_type {kind!r} needs {', '.join(missing)}, got {told}")
    if unknown := [name for name in options if name not in (*needed, *more)]:
        raise ValueError(f"RoPE of rope_type {kind!r} does not use {listed(options, unknown)}")
    if family_by_kind and not options.get("truncate", True):
        raise ValueError("truncate=False is not supported where RoPE differs between layers: "
                         "transformers does not use it there")
    if bad := [name for name, value in {"rope_theta": base, **options}.items()
               if not isinstance(value, numbers.Real)]:
        raise TypeError(f"{listed({'rope_theta': base, **options}, bad)} must be a number")
    return Rotation(float(base), kind, tuple(sorted(options.items())))

"""Read a Llama-like configuration, a dict as in a config.json, as a ``Plan`` of the model.

A field that the model does not know raises an error that names it, and so does a value that it
cannot follow: none is ignored, except those that change no logits. ``families`` holds what is known
about each ``model_type``.
"""

import math
import numbers
from typing import NamedTuple

from .. import checks
from ..checks import cache as cache_checks
from . import _layers
from ._layers import OLDER, Layer, listed
from .families import FAMILIES, SIZES
from .rotation import SCALINGS, Rotation

__all__ = ["SCALINGS", "Layer", "Plan", "Rotation", "read"]

ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh")
# Fields that change no logits, or only say what this model does in any case. (pretraining_tp cuts
# products of matrices into parts, with the same result.)
HARMLESS = {
    "_name_or_path", "_sliding_window_pattern", "architectures", "attn_implementation",
    "bos_token_id", "cache_implementation", "chunk_size_feed_forward", "dtype", "id2label",
    "initializer_range", "label2id", "model_type", "output_attentions", "output_hidden_states",
    "pad_token_id", "pretraining_tp", "problem_type", "return_dict", "torch_dtype",
    "transformers_version", "use_cache"}
ALSO = {  # fields that one family knows without a default
    "smollm3": ("max_window_layers",),
    "gpt_oss": ("experts_per_token", "initial_context_length", "output_router_logits",
                "router_aux_loss_coef"),
    "gemma2": ("hidden_act",), "gemma3_text": ("hidden_act", "rope_local_base_freq")}
ONLY = {"attention_dropout": (0, None), "is_encoder_decoder": (False,),
        "is_llama_config": (True, None), "rope_interleaved": (False, None),
        "use_mrope": (False, None),
        "use_bidirectional_attention": (False, None)}
FLAGS = ("tie_word_embeddings", "attention_bias", "mlp_bias", "use_sliding_window")
NUMBERS = ("rms_norm_eps", "query_pre_attn_scalar", "swiglu_alpha", "swiglu_limit")
NUMBERS_OR_NONE = ("attn_logit_softcapping", "final_logit_softcapping", "rope_theta")
COUNTS = {"max_window_layers": 0, "no_rope_layer_interval": 1, "sliding_window_pattern": 1}


class Plan(NamedTuple):
    """All that a decoder's parameters do not say.

    ``norms`` maps the places of norms in a block to their names in a state dict. ``qk_norm`` is
    over one "head", over the whole "width", or "none"; with ``plus_one``, the factor of each norm
    is 1 + its parameter. Scores are multiplied by ``scale`` and capped by ``softcap``, logits by
    ``final_softcap``. ``experts`` is (number, chosen per token, alpha, limit). ``end`` holds the
    tokens that end a text.
    """

    n_tokens: int
    d_model: int
    d_hidden: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    layers: tuple
    norms: dict
    scale: float
    eps: float = 1e-6
    activation: str = "silu"
    tied: bool = False
    qk_norm: str = "none"
    plus_one: bool = False
    scaled_embedding: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    hidden_bias: bool = False
    sink: bool = False
    softcap: float | None = None
    final_softcap: float | None = None
    experts: tuple | None = None
    end: tuple = ()


def read(config):
    """Return the ``Plan`` of a configuration, a dict as in a config.json.

    Raises TypeError unless it is a dict, ValueError for a ``model_type``, a field or a value that
    this model cannot follow, and for a missing size.
    """
    kind, family, fields = _fields(config)
    n_tokens, d_model, d_hidden, n_layers, n_heads = checks.counts(
        **{name: fields[name] for name in SIZES})
    n_kv_heads = n_heads if fields["num_key_value_heads"] is None else fields["num_key_value_heads"]
    cache_checks.group(n_heads, n_kv_heads)
    d_head = fields["head_dim"]
    d_head = checks.divisible(d_model, n_heads) if d_head is None else d_head
    if checks.count(d_head, "head_dim") % 2:
        raise ValueError("head_dim must be even, because RoPE rotates dimensions in pairs, got "
                         f"{d_head}")
    end = fields["eos_token_id"]
    end = () if end is None else tuple(end) if isinstance(end, list) else (end,)
    bias = fields.get("attention_bias", False)
    plan = {
        "eps": fields["rms_norm_eps"], "tied": fields["tie_word_embeddings"],
        "activation": _activation(fields), "qkv_bias": bias, "out_bias": bias,
        "hidden_bias": fields.get("mlp_bias", False),
        "softcap": fields.get("attn_logit_softcapping"),
        "final_softcap": fields.get("final_logit_softcapping"), "experts": _experts(fields),
        "end": tuple(checks.count(token, "eos_token_id", 0) for token in end)}
    plan |= family.fixed or {}
    return Plan(n_tokens, d_model, d_hidden, n_heads, n_kv_heads, d_head,
                _layers.layers(kind, family, fields, n_layers, d_head), family.norms,
                fields.get("query_pre_attn_scalar", d_head) ** -0.5, **plan)


def _fields(config):
    """Return (model_type, family, all fields with defaults). Raises for what is not known."""
    if not isinstance(config, dict):
        raise TypeError(f"config must be a dict, as json.load returns it, got "
                        f"{type(config).__name__}")
    kind = config.get("model_type")
    if isinstance(config.get("text_config"), dict):
        raise ValueError(f"model_type {kind!r} has a text_config beside other parts: pass "
                         "config['text_config'], and the parameters of the text model only")
    if kind not in FAMILIES:
        raise ValueError(f"model_type must be one of {', '.join(FAMILIES)}, got {kind!r}")
    family = FAMILIES[kind]
    known = {*SIZES, *family.defaults, *HARMLESS, *ONLY, *OLDER}
    known |= {*ALSO.get(kind, ())}
    unknown = [name for name, value in config.items() if name not in known and value is not None]
    if unknown:
        raise ValueError(f"a {kind} model with {listed(config, unknown)} is not known here: it "
                         "may compute something else")
    if missing := [name for name in SIZES if config.get(name) is None]:
        raise ValueError(f"the configuration has no {', '.join(missing)}")
    fields = {**family.defaults, **config}
    if refused := [name for name, allowed in ONLY.items()
                   if fields.get(name, allowed[0]) not in allowed]:
        raise ValueError(f"a {kind} model with {listed(fields, refused)} is not supported; only "
                         + ", ".join(f"{name}={ONLY[name][0]}" for name in refused))
    _check_types(fields)
    if kind == "gemma3_text" and fields["attn_logit_softcapping"] is not None:
        raise ValueError("attn_logit_softcapping must be None for gemma3_text, whose attention in "
                         f"transformers does not use it, got {fields['attn_logit_softcapping']}")
    return kind, family, fields


def _check_types(fields):
    """Raise unless flags are True or False, numbers are positive, and counts are counts."""
    for name in FLAGS:
        if not isinstance(fields.get(name, False), bool):
            raise TypeError(f"{listed(fields, [name])} must be True or False")
    for name in (*NUMBERS, *NUMBERS_OR_NONE):
        value = fields.get(name, 1.0)
        if value is None and name in NUMBERS_OR_NONE:
            continue
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{listed(fields, [name])} must be a number")
        if not 0 < value < math.inf:
            raise ValueError(f"{listed(fields, [name])} must be greater than 0 and finite")
    for name, least in COUNTS.items():
        checks.count(fields.get(name, least), name, least)


def _activation(fields):
    """Return the name of the activation of the feed-forward layer."""
    name = fields.get("hidden_activation") or fields.get("hidden_act")
    if name not in ACTIVATIONS:
        raise ValueError(f"hidden_act must be one of {', '.join(ACTIVATIONS)}, got {name!r}")
    if fields.get("hidden_act", name) not in (name, None):
        raise ValueError(f"hidden_activation={name!r} and hidden_act={fields['hidden_act']!r} "
                         "differ")
    return name


def _experts(fields):
    """Return (number, chosen per token, alpha, limit) of the experts, or None."""
    if "num_local_experts" not in fields:
        return None
    number, chosen = checks.counts(num_local_experts=fields["num_local_experts"],
                                   num_experts_per_tok=fields["num_experts_per_tok"])
    if chosen > number or fields.get("experts_per_token", chosen) != chosen:
        raise ValueError(f"num_experts_per_tok={chosen} must be at most num_local_experts={number},"
                         f" and experts_per_token the same, got {fields.get('experts_per_token')}")
    if fields["hidden_act"] != "silu":
        raise ValueError(f"hidden_act must be 'silu' with experts, got {fields['hidden_act']!r}")
    return number, chosen, fields["swiglu_alpha"], fields["swiglu_limit"]

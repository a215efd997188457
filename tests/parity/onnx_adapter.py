"""The node cases that `onnx` defines, in our names: layouts and masks, no mathematics.

Specification: https://onnx.ai/onnx/operators/onnx__Attention.html. Heads become an axis, a cache is
put in front of the new keys, and every way to hide a key becomes one ``keep`` of ``utils.masks``.
"""

from importlib import import_module
from typing import NamedTuple

import numpy as np
import torch
from onnx import helper
from onnx.backend.test.case import node as onnx_cases

from utils import masks


class AttentionCase(NamedTuple):
    """One attention, q (b, h, i, d), k (b, h_kv, j, d), v (b, h_kv, j, d_v), and what it gives."""

    arrays: tuple          # q, k, v
    keep: np.ndarray       # bool, True = may attend
    options: dict          # bias, scale, softcap: as in reference.attention
    expected: dict         # ONNX's outputs by their names, Y as (b, h, i, d_v)
    score_stage: int       # which scores qk_matmul_output are: see test_onnx_cases


def node_cases(op_type, module):
    """Return {name: (node, inputs, outputs)} of the cases that are one node of ``op_type``.

    Inputs and outputs are dicts of arrays by ONNX's names, without the optional ones left out.
    """
    import_module(f"{onnx_cases.__name__}.{module}")  # files its cases in the list read here
    result = {}
    for case in onnx_cases._NodeTestCases:
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type == op_type:
            ((inputs, outputs),) = case.data_sets
            result[case.name] = (
                nodes[0], dict(zip(filter(None, nodes[0].input), inputs, strict=True)),
                dict(zip(filter(None, nodes[0].output), outputs, strict=True)))
    return result


def attributes(node):
    """Return the attributes of a node that were set, by name."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def rotary_case(node, inputs, outputs):
    """Return x (b, h, i, d), cos and sin (b, 1, i, n), interleaved, and what comes out, like x.

    Specification: https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html. The caches have as
    many angles as pairs are to turn, ``rotary_embedding_dim`` / 2, which is 0 for all features.
    """
    options = attributes(node)
    x, expected = (torch.as_tensor(with_heads(array, options.get("num_heads")))
                   for array in (inputs["input"], outputs["output"]))
    places = inputs.get("position_ids", slice(None))  # without them the caches are (b, i, n)
    pairs = (options.get("rotary_embedding_dim", 0) or x.shape[-1]) // 2
    cos, sin = (torch.as_tensor(inputs[name][places])[:, None] for name in (
        "cos_cache", "sin_cache"))
    assert cos.shape[-1] == sin.shape[-1] == pairs
    return x, cos, sin, bool(options.get("interleaved", 0)), expected


def attention_case(node, inputs, outputs):
    """Return an AttentionCase from a node of type Attention."""
    options = attributes(node)
    q, k, v = (with_heads(inputs[name], options.get(heads)) for name, heads in (
        ("Q", "q_num_heads"), ("K", "kv_num_heads"), ("V", "kv_num_heads")))
    if "past_key" in inputs:
        k = np.concatenate((inputs["past_key"], k), axis=2)
        v = np.concatenate((inputs["past_value"], v), axis=2)
    n_q, n_k = q.shape[2], k.shape[2]
    keep = hidden_by_position(inputs, options, n_q, n_k)
    mask, bias = inputs.get("attn_mask"), None
    if mask is not None:
        mask = full_mask(mask, n_k)
        try:
            keep = keep & (mask if mask.dtype == bool else masks.from_additive(mask))
        except ValueError:  # numbers to add, not a mask
            bias = mask
    scale = {"bias": bias, "scale": options.get("scale"), "softcap": options.get("softcap")}
    expected = {**outputs, "Y": with_heads(outputs["Y"], options.get("q_num_heads"))}
    return AttentionCase((q, k, v), keep, scale, expected, options.get("qk_matmul_output_mode", 0))


def with_heads(x, n_heads):
    """Give (b, n, h * d) its heads, (b, h, n, d); what has four axes stays."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], n_heads, -1).swapaxes(1, 2)


def hidden_by_position(inputs, options, n_q, n_k):
    """Return keep for is_causal, the window and nonpad_kv_seqlen, given where the queries stand."""
    lengths = inputs.get("nonpad_kv_seqlen")
    first = inputs["past_key"].shape[2] if "past_key" in inputs else 0
    if lengths is not None:
        first = lengths[:, None] - n_q  # the last query stands at the last key that is not padding
    left, right = (None if options.get(f"{side}_window_size", -1) < 0
                   else options[f"{side}_window_size"] for side in ("left", "right"))
    positions = first + np.arange(n_q)
    keep = masks.band(positions, n_k, left, right)
    if options.get("is_causal"):
        keep = keep & masks.band(positions, n_k, right=0)
    return keep if lengths is None else keep & masks.padding(lengths, n_k)


def full_mask(mask, n_k):
    """Return attn_mask for all n_k keys (those it does not mention are hidden), 4 axes or 2."""
    hide = False if mask.dtype == bool else -np.inf
    missing = np.full((*mask.shape[:-1], n_k - mask.shape[-1]), hide, dtype=mask.dtype)
    mask = np.concatenate((mask, missing), axis=-1)
    return mask[None] if mask.ndim == 3 else mask  # three axes are (h, i, j)

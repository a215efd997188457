"""The faults with a name: what each one does, where to look for it, and which chapter teaches it.

A layer and a decoder contain a kernel, so they can have the faults of a kernel, too. The programs
with these faults are in ``utils.doctor.faulty``. (Over 200 lines, since it is one table.)
"""

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault: its name, its level, what it does, where to look, its chapter and a real case."""

    name: str
    level: str      # kernel, layer or decoding: the smallest program that can have it
    sentence: str
    look: str
    chapter: str
    case: str = ""  # the address of a public account of it


SCALE = "the line that divides the scores"
SOFTMAX = "the axis (dim) of the softmax"
MASK = "the line that applies the mask to the scores"
POSITIONS = "the line that makes the causal mask (tril, triu, diagonal=)"
KERNEL = (
    Fault("no scale", "kernel", "The scores are not divided by √d, so the softmax is too sharp.",
          SCALE, "scaled_dot_product", "https://github.com/mlc-ai/mlc-llm/pull/3426"),
    Fault("scale by sqrt(d_model)", "kernel",
          "The scores are divided by √d_model; expected: √d, the dimension of one head.",
          SCALE, "scaled_dot_product", "https://github.com/lucidrains/vit-pytorch/issues/65"),
    Fault("constant scale", "kernel",
          "The scores are multiplied by another number than 1/√d.",
          SCALE, "scaled_dot_product", "https://github.com/BobMcDear/attorch/issues/14"),
    Fault("scaled twice", "kernel",
          "The scores are divided by √d twice, so by d.",
          SCALE + ", and the function that gets the result (SDPA scales by itself)",
          "scaled_dot_product", "https://github.com/huggingface/transformers/pull/38290"),
    Fault("scaled after softmax", "kernel",
          "The weights are divided after the softmax, so they no longer sum to 1.",
          SCALE + ": it belongs before the softmax", "scaled_dot_product",
          "https://github.com/FrancescoSaverioZuppichini/ViT/issues/5"),
    Fault("softmax over queries", "kernel",
          "The weights sum to 1 over the queries; expected over the keys.",
          SOFTMAX, "self_attention",
          "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146"),
    Fault("softmax over heads", "kernel",
          "The weights sum to 1 over the heads; expected over the keys.",
          SOFTMAX, "sequence_first",
          "https://github.com/CAMMA-public/rendezvous-in-time/issues/3"),
    Fault("softmax over heads and keys", "kernel",
          "One softmax runs over all heads and keys together; expected one for each head.",
          SOFTMAX + ", and a flatten before it", "sequence_first",
          "https://github.com/facebookresearch/detr/issues/247"),
    Fault("softmax over batch", "kernel",
          "The weights sum to 1 over the batch, so examples depend on each other.",
          SOFTMAX, "sequence_first"),
    Fault("mask inverted", "kernel",
          "It masks the keys that the mask allows, and attends to the others.",
          MASK + ": here True = may attend; nn.MultiheadAttention and masked_fill mask where True",
          "masks", "https://github.com/rasbt/LLMs-from-scratch/issues/1061"),
    Fault("mask added as 0/1", "kernel",
          "The mask is added to the scores as 0 and 1, which masks no key.",
          MASK + ": a mask that is added must be 0 and -inf", "masks",
          "https://github.com/pytorch/pytorch/issues/21518"),
    Fault("mask transposed", "kernel",
          "Where there are as many queries as keys, the mask is used with these axes exchanged.",
          MASK + ", and any transpose of the mask", "masks"),
    Fault("mask ignored", "kernel", "The mask has no effect on the output.",
          MASK + ", if there is one: masked_fill and where return a new array", "masks"),
    Fault("mask after softmax", "kernel",
          "The mask multiplies the weights after the softmax, so they no longer sum to 1.",
          MASK + ": it belongs before the softmax", "masks"),
    Fault("causal off by one", "kernel", "The causal mask is one position off.",
          POSITIONS, "masks"),
    Fault("causal mask inverted", "kernel", "A query attends to later keys, not to earlier ones.",
          POSITIONS + ", and what True means where it is used", "decoder_mask",
          "https://github.com/rasbt/LLMs-from-scratch/issues/1061"),
    Fault("no causal mask", "kernel", "A query attends to later keys, too.",
          POSITIONS + ", and whether it is used in eval mode, too", "decoder_mask",
          "https://github.com/Mikyx-1/TinyLLM/issues/17"),
    Fault("other causal alignment", "kernel",
          "For n_q ≠ n_k, the causal mask has the other alignment.",
          POSITIONS + ": is query 0 aligned with key 0 (upper left), or the last query with the "
          "last key (lower right)?", "masks",
          "https://github.com/pytorch/pytorch/issues/108108"),
    Fault("window", "kernel", "A query attends only to the keys near its own position.",
          "anything else in the mask: a band, a window, a limit on the distance", "masks"),
    Fault("mask value too high", "kernel",
          "The mask value is finite and not low enough, so masked keys keep some weight.",
          MASK + ": use -inf, or the lowest number of the dtype", "masks",
          "https://github.com/hyunwoongko/transformer/issues/10"),
    Fault("q and k swapped", "kernel", "The scores are k qᵀ; expected q kᵀ.",
          "the order of q and k in their product", "self_attention"),
    Fault("k and v swapped", "kernel",
          "The scores are q vᵀ, and the context averages the keys; expected q kᵀ and the values.",
          "the order of k and v, from the line that computes them to the line that uses them",
          "self_attention", "https://github.com/jsbaan/transformer-from-scratch/issues/1"),
    Fault("tile for repeat", "kernel",
          "With fewer heads of k and v, query heads use them as 0 1 0 1; expected 0 0 1 1.",
          "the line that repeats the heads of k and v: use repeat_interleave, not repeat or tile",
          "fewer_heads", "https://github.com/onnx/onnx/pull/7274"),
    Fault("weights not used", "kernel",
          "Each query gets its own value; expected the average of all values by its weights.",
          "the product of weights and v, and whether its result is used", "soft_lookup"),
    Fault("dropout in eval", "kernel", "Dropout is on although the program is not in training.",
          "dropout_p (SDPA ignores eval()), training=, and an nn.Dropout that forward makes",
          "packed_and_fused", "https://github.com/pytorch/pytorch/issues/124464"),
)
SPLIT = "the view or reshape that splits heads: (b, i, h, d) first, then transpose to (b, h, i, d)"
MERGE = "the lines after weights @ v: transpose back to (b, i, h, d), then reshape"
INPUTS = "the lines that compute q, k and v, and the order of the arguments where it is called"
PACKED = "the chunk, split or reshape that separates q, k and v"
LAYER = (
    Fault("split without transpose", "layer",
          "The projection is viewed as (b, h, i, d) without a transpose, which tears the heads.",
          SPLIT, "view_and_transpose"),
    Fault("merge without transpose", "layer",
          "The context (b, h, i, d) is reshaped without the transpose, which mixes tokens.",
          MERGE, "view_and_transpose", "https://github.com/jsbaan/transformer-from-scratch/pull/6"),
    Fault("split and merge without transpose", "layer",
          "Heads are split and merged without a transpose, so each head is torn.",
          SPLIT + "; and " + MERGE, "view_and_transpose",
          "https://github.com/649453932/Chinese-Text-Classification-Pytorch/issues/10"),
    Fault("shared head", "layer", "All heads use the projection of one head.",
          "the loop or index that selects the columns of a head", "per_head_loops",
          "https://github.com/BobMcDear/attorch/issues/14"),
    Fault("input split before projection", "layer",
          "Each head projects its own dimensions of the input; expected all dimensions.",
          "the order of the projection and the split", "per_head_loops",
          "https://github.com/aladdinpersson/Machine-Learning-Collection/issues/3"),
    Fault("missing W_o", "layer", "The merged heads are returned without the projection by W_o.",
          "the last line: one more projection", "per_head_loops"),
    Fault("missing bias", "layer", "A bias of the projections is not used.",
          "the four projections: x @ W + b", "weights_and_apis"),
    Fault("transposed weight", "layer", "A weight is used as x @ W.T; expected x @ W.",
          "the line that loads the weights: nn.Linear stores (out, in)", "weights_and_apis",
          "https://github.com/rasbt/LLMs-from-scratch/issues/857"),
    Fault("padding leak", "layer", "Padding is not masked everywhere.",
          "the line that gives the mask its axes for heads and queries", "decoder_mask",
          "https://github.com/keras-team/keras-hub/issues/137"),
    Fault("batch and sequence swapped", "layer",
          "The first two axes are exchanged, so each position attends over the batch.",
          "batch_first, and any transpose(0, 1)", "sequence_first",
          "https://github.com/aipixel/AEMatter/issues/3"),
    Fault("LayerNorm over time", "layer",
          "The LayerNorm runs over the positions, so outputs depend on later tokens, too.",
          "the axis of the normalisation", "decoder_mask"),
    Fault("packed order", "layer", "q, k and v are read from the packed weights in another order.",
          PACKED, "weights_and_apis",
          "https://github.com/jsbaan/transformer-from-scratch/issues/1"),
    Fault("wrong projection", "layer", "One of q, k and v is made by the projection of another.",
          "the lines that compute q, k and v: which projection does each of them use?",
          "weights_and_apis"),
    Fault("memory ignored", "layer", "k or v is made from x; expected from memory.",
          INPUTS, "encoder_decoder"),
    Fault("x and memory exchanged", "layer", "q is made from memory; expected from x.",
          INPUTS, "encoder_decoder"),
    Fault("interleaved packing", "layer",
          "The packed projection is stored as (3, h, d) and read in another order, or vice versa.",
          PACKED, "weights_and_apis"),
    Fault("other example's mask", "layer", "An example gets the mask of another example.",
          "the line that repeats the mask for heads: its order must be that of the folded axis",
          "transpose_qkv", "https://github.com/lsdefine/attention-is-all-you-need-keras/issues/28"),
    Fault("new layer in every call", "layer",
          "Each call makes a layer anew, with new random weights that are never trained.",
          "any layer that forward makes: make it in __init__", "multi_head_layer"),
)
CACHE = "the lines that put new keys and values into the cache"
DECODING = (
    Fault("cache position", "decoding",
          "The causal mask ignores the cached positions, so new queries miss earlier keys.",
          POSITIONS + ": the last query must be aligned with the last key", "kv_cache",
          "https://github.com/pytorch/pytorch/issues/103082"),
    Fault("unmasked prompt", "decoding",
          "Positions of one chunk attend to later positions of that chunk.",
          "the condition under which the causal mask is used", "kv_cache",
          "https://github.com/Mikyx-1/TinyLLM/issues/17"),
    Fault("cache not appended", "decoding", "New keys and values are not added to the cache.",
          CACHE + ", and what is returned", "kv_cache"),
    Fault("cache overwritten", "decoding", "New keys and values replace those in the cache.",
          CACHE + ": concatenate along the sequence", "kv_cache"),
    Fault("positions restart", "decoding",
          "The positions of a new chunk begin at 0; expected behind those in the cache.",
          "the offset of the positions, which is the number of keys in the cache", "kv_cache"),
    Fault("keys cached, values not", "decoding",
          "Queries attend to earlier keys, but their values are lost.", CACHE, "kv_cache"),
)
# Of parts that a program is told to have, so they are asked for with ``parts=`` only.
GITHUB = "https://github.com/"
TODAY = tuple(Fault(name, "kernel", sentence, look, chapter, *(GITHUB + one for one in case))
              for look, chapter, faults in (
    ("the rotation of q and k", "positions", (
        ("no RoPE", "q and k are not rotated by their positions."),
        ("other RoPE pairing", "RoPE rotates other pairs of dimensions together.",
         "sgl-project/sglang/pull/30111"),
        ("other RoPE base", "The angles of RoPE are computed from another base."),
        ("RoPE off by one", "The positions of queries and keys are one apart."),
        ("RoPE not on both", "Only one of q and k is rotated by its positions."),
        ("RoPE on values", "The values are rotated by their positions, too."))),
    ("the norm of q and k", "todays_models", (
        ("no QK-norm", "q and k are not normalised."),
        ("QK-norm over all heads", "All heads are normalised together; expected each by itself.",
         "vllm-project/vllm/pull/16311"),
        ("QK-norm of each head", "Each head is normalised by itself; expected all together."),
        ("other gain", "The gain of the norm means γ in the weights and 1 + γ in the program, or "
         "the other way round.", "NeuraLegion/shainet/pull/176"))),
    ("the line that limits the distance of query and key", "todays_models", (
        ("window off by one", "A query sees one key too many or too few.",
         "huggingface/transformers/issues/39408"),
        ("no window", "The keys that a query sees are not limited by a window."))),
    ("the tanh on the scores", "todays_models", (
        ("other soft-capping", "The scores are not bounded by a tanh as they should be."),
        ("soft-capping after the mask", "The scores are masked before the tanh, which makes the "
         "mask value finite.", "onnx/onnx/pull/7867"))),
    ("the column of the sink", "todays_models", (
        ("no sink", "The softmax has no sink, so the weights of the keys sum to 1."),
        ("sink scaled", "The sink is divided by √d together with the scores, so it is too near 0."),
        ("other column dropped", "Not the sink is dropped after the softmax but the last key, so "
         "each key gets the weight of the one before it."))),
    ("the scale of the scores", "long_context", (
        ("YaRN's factor twice", "The temperature of YaRN is used twice.",
         "sgl-project/sglang/pull/33558"),
        ("no YaRN factor", "The temperature of YaRN is not used.",
         "turboderp-org/exllamav3/issues/259"))))
    for name, sentence, *case in faults)
FAULTS = {fault.name: fault for fault in KERNEL + LAYER + DECODING + TODAY}

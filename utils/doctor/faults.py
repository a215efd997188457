"""The faults that have a name: what each does, where to look for it, and where it is taught.

A layer and a decoder contain a kernel, and so whatever can be wrong with one. The programs that
show the faults are in ``utils.doctor.faulty``.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault: its name, level, what it does, where to look, its chapter, and a real case."""

    name: str
    level: str      # kernel | layer | decoding: the smallest program that can have it
    sentence: str
    look: str
    chapter: str
    case: str = ""  # an address, where the case has been told in public


SCALE = "the line that divides the scores"
SOFTMAX = "the axis (dim) that the softmax is given"
MASK = "the line that puts the mask on the scores"
POSITIONS = "the line that makes the causal mask (tril, triu, diagonal=)"
KERNEL = (
    Fault("no scale", "kernel", "The scores are not divided by √d, so the softmax is too sharp.",
          SCALE, "scaled_dot_product", "https://github.com/karpathy/ng-video-lecture/pull/6"),
    Fault("scale by sqrt(d_model)", "kernel",
          "The scores are divided by √(h·d), the width of the model, not by √d, that of a head.",
          SCALE, "scaled_dot_product", "https://github.com/lucidrains/vit-pytorch/issues/65"),
    Fault("constant scale", "kernel",
          "The scores are multiplied by the same number whatever d is; it should be 1/√d.",
          SCALE, "scaled_dot_product"),
    Fault("scaled twice", "kernel",
          "The scores are divided by √d twice, that is by d.",
          SCALE + ", and the function that it is handed to (SDPA scales by itself)",
          "scaled_dot_product", "https://github.com/esceptico/perceiver-io/issues/9"),
    Fault("softmax over queries", "kernel",
          "The weights sum to 1 over the queries; each query's weights over the keys should.",
          SOFTMAX, "sequence_first",
          "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146"),
    Fault("softmax over heads", "kernel",
          "The weights sum to 1 over the heads, so heads compete instead of keys.",
          SOFTMAX, "sequence_first", "https://github.com/PetrochukM/PyTorch-NLP/issues/2"),
    Fault("softmax over heads and keys", "kernel",
          "One softmax runs over all heads and keys together; each head should have its own.",
          SOFTMAX + ", and a flatten before it", "sequence_first",
          "https://github.com/facebookresearch/detr/issues/247"),
    Fault("softmax over batch", "kernel",
          "The weights sum to 1 over the examples of the batch, so examples hear each other.",
          SOFTMAX, "sequence_first"),
    Fault("mask inverted", "kernel",
          "It attends to what the mask forbids and hides what it allows.",
          MASK + ": True = may attend here; nn.MultiheadAttention and masked_fill say True = hide",
          "masks", "https://github.com/rasbt/LLMs-from-scratch/issues/1061"),
    Fault("mask added as 0/1", "kernel",
          "The mask is added to the scores as 0 and 1, which hides nothing.",
          MASK + ": to be added it must be 0 and -inf", "masks",
          "https://github.com/pytorch/pytorch/issues/21518"),
    Fault("mask ignored", "kernel", "The mask makes no difference.",
          MASK + ", if there is one: masked_fill and where return a new array", "masks"),
    Fault("mask after softmax", "kernel",
          "The mask multiplies the weights after the softmax, so the rest no longer sum to 1.",
          MASK + ": it belongs before the softmax", "masks"),
    Fault("causal off by one", "kernel", "The causal mask is one position off.",
          POSITIONS, "masks"),
    Fault("causal mask inverted", "kernel", "A query sees what comes after it, not before.",
          POSITIONS + ", and what True means where it is used", "decoder_mask",
          "https://github.com/rasbt/LLMs-from-scratch/issues/1061"),
    Fault("no causal mask", "kernel", "A query sees what comes after it.",
          POSITIONS + ", and whether it is used in eval mode too", "decoder_mask",
          "https://github.com/Mikyx-1/TinyLLM/issues/17"),
    Fault("other corner", "kernel",
          "With n_q ≠ n_k the causal mask hangs from the other corner.",
          POSITIONS + ": does query 0 stand at key 0, or the last query at the last key?", "masks",
          "https://github.com/pytorch/pytorch/issues/108108"),
    Fault("window", "kernel", "A query sees only the keys near its own position.",
          "what else is in the mask: a band, a window, a limit on the distance", "masks"),
    Fault("sentinel wins", "kernel",
          "Hidden scores get a finite number that is not small enough, so hidden keys are heard.",
          MASK + ": use -inf, or the smallest number of the dtype", "masks",
          "https://github.com/hyunwoongko/transformer/issues/10"),
    Fault("q and k swapped", "kernel", "Keys ask and queries answer: k qᵀ instead of q kᵀ.",
          "the order of arguments in the product of q and k", "self_attention"),
    Fault("k and v swapped", "kernel", "Values are compared and keys are returned.",
          "the order of k and v, from where they are computed to where they are used",
          "self_attention", "https://github.com/jsbaan/transformer-from-scratch/issues/1"),
    Fault("tile for repeat", "kernel",
          "With fewer heads of k and v, query heads are paired 0 1 0 1 instead of 0 0 1 1.",
          "the line that multiplies the heads of k and v: repeat_interleave, not repeat or tile",
          "fewer_heads", "https://github.com/onnx/onnx/pull/7274"),
    Fault("dropout in eval", "kernel", "Dropout is on although nothing is trained.",
          "dropout_p (SDPA does not know of eval()), training=, and nn.Dropout made in forward",
          "view_and_transpose", "https://github.com/pytorch/pytorch/issues/124464"),
)
SPLIT = "the view or reshape that makes heads: (b, i, h, d) first, then transpose to (b, h, i, d)"
MERGE = "the lines after weights @ v: transpose back to (b, i, h, d), then reshape"
PACKED = "the chunk, split or reshape that takes q, k and v apart"
LAYER = (
    Fault("split without transpose", "layer",
          "The features are viewed as (b, h, i, d) directly, so a head gets torn words.",
          SPLIT, "view_and_transpose", "https://github.com/reczoo/FuxiCTR/issues/30"),
    Fault("merge without transpose", "layer",
          "The context (b, h, i, d) is reshaped without transposing back, so words are mixed.",
          MERGE, "view_and_transpose", "https://github.com/jsbaan/transformer-from-scratch/pull/6"),
    Fault("split and merge without transpose", "layer",
          "Heads are split and merged without a transpose: both tear the words, in the same way.",
          SPLIT + "; and " + MERGE, "view_and_transpose",
          "https://github.com/649453932/Chinese-Text-Classification-Pytorch/issues/10"),
    Fault("shared head", "layer", "All heads use the projection of one head.",
          "the loop or index that picks a head's columns", "per_head_loops",
          "https://github.com/pbloem/former/issues/8"),
    Fault("input split before projection", "layer",
          "Each head projects its own slice of the word instead of the whole word.",
          "the order of the projection and the split", "per_head_loops",
          "https://github.com/aladdinpersson/Machine-Learning-Collection/issues/3"),
    Fault("missing W_o", "layer", "The heads are put side by side and returned without W_o.",
          "the last line: one more projection", "per_head_loops"),
    Fault("missing bias", "layer", "A bias of the projections is not used.",
          "the four projections: x @ W + b", "weights_and_apis"),
    Fault("transposed weight", "layer", "A weight is used as x @ W.T where x @ W is meant.",
          "how weights came in: nn.Linear holds (out, in)", "weights_and_apis",
          "https://github.com/rasbt/LLMs-from-scratch/issues/857"),
    Fault("padding leak", "layer", "Padding is not hidden everywhere.",
          "how the mask gets its axes of heads and queries", "decoder_mask",
          "https://github.com/pytorch/pytorch/issues/41508"),
    Fault("batch and sequence swapped", "layer",
          "Examples attend to each other, position by position: the first two axes are exchanged.",
          "batch_first, and any transpose(0, 1)", "sequence_first",
          "https://github.com/aipixel/AEMatter/issues/3"),
    Fault("LayerNorm over time", "layer",
          "The LayerNorm runs along the sequence, so words hear each other, later ones too.",
          "the axis of the normalisation", "decoder_mask"),
    Fault("packed order", "layer", "q, k and v are read from the packed weights in another order.",
          PACKED, "weights_and_apis",
          "https://github.com/jsbaan/transformer-from-scratch/issues/1"),
    Fault("interleaved packing", "layer",
          "The packed projection lies as (3, h, d) and is read in another order, or the reverse.",
          PACKED, "weights_and_apis"),
    Fault("other example's mask", "layer", "An example is masked by the lengths of another.",
          "where the mask is repeated for heads: in the order in which batch and heads are folded",
          "transpose_qkv", "https://github.com/lsdefine/attention-is-all-you-need-keras/issues/36"),
)
CACHE = "the lines that put new keys and values into the cache"
DECODING = (
    Fault("cache position", "decoding",
          "With a cache the mask still hangs from the first key, so new queries miss the past.",
          POSITIONS + ": the last query stands at the last key", "kv_cache",
          "https://github.com/pytorch/pytorch/issues/103082"),
    Fault("unmasked prompt", "decoding",
          "Several positions that come at once see each other, later ones too.",
          "the condition under which the causal mask is used", "kv_cache",
          "https://github.com/Mikyx-1/TinyLLM/issues/17"),
    Fault("cache not appended", "decoding", "New keys and values do not get into the cache.",
          CACHE + ", and what is returned", "kv_cache"),
    Fault("cache overwritten", "decoding", "New keys and values replace what was in the cache.",
          CACHE + ": concatenate along the sequence", "kv_cache"),
    Fault("keys cached, values not", "decoding",
          "Earlier keys are looked at, but their values are lost.", CACHE, "kv_cache"),
)
FAULTS = {fault.name: fault for fault in KERNEL + LAYER + DECODING}

"""The faults with a name: what each one does, where to look for it, and which chapter teaches it.

A layer and a decoder contain a kernel, so they can have the faults of a kernel, too. The programs
with these faults are in ``utils.doctor.faulty``. (Over 200 lines, since it is one table.)
"""

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault: its name, its level, its chapter, a real case, what it does, and where to look."""

    name: str
    level: str      # kernel, layer or decoding: the smallest program that can have it
    chapter: str
    case: str       # the address of a public account of it, or ""
    sentence: str
    look: str


def _faults(level, *rows):
    return [Fault(name, level, chapter, case and "https://github.com/" + case, sentence, look)
            for name, chapter, case, sentence, look in rows]


SCALE = "the line that divides the scores"
SOFTMAX = "the axis (dim) of the softmax"
MASK = "the line that applies the mask to the scores"
POSITIONS = "the line that makes the causal mask (tril, triu, diagonal=)"
KERNEL = _faults(
    "kernel",
    ("no scale", "scaled_dot_product", "mlc-ai/mlc-llm/pull/3426",
     "The scores are not divided by √d, so the softmax is too sharp.", SCALE),
    ("scale by sqrt(d_model)", "scaled_dot_product", "lucidrains/vit-pytorch/issues/65",
     "The scores are divided by √d_model; expected: √d, where d is the dimension of one head.",
     SCALE),
    ("constant scale", "scaled_dot_product", "BobMcDear/attorch/issues/14",
     "The scores are multiplied by another number than 1/√d.", SCALE),
    ("scaled twice", "scaled_dot_product", "huggingface/transformers/pull/38290",
     "The scores are divided by √d twice, so by d.",
     SCALE + ", and the function that gets the result (SDPA scales by itself)"),
    ("scaled after softmax", "scaled_dot_product", "FrancescoSaverioZuppichini/ViT/issues/5",
     "The weights are divided after the softmax, so they no longer sum to 1.",
     "the line that divides the weights: divide the scores instead, by √d, before the softmax"),
    ("softmax over queries", "self_attention",
     "labmlai/annotated_deep_learning_paper_implementations/issues/146",
     "The weights sum to 1 over the queries; expected over the keys.", SOFTMAX),
    ("softmax over heads", "sequence_first", "CAMMA-public/rendezvous-in-time/issues/3",
     "The weights sum to 1 over the heads; expected over the keys.", SOFTMAX),
    ("softmax over heads and keys", "sequence_first", "facebookresearch/detr/issues/247",
     "One softmax runs over all heads and keys together; expected one for each head.",
     SOFTMAX + ", and a flatten before it"),
    ("softmax over batch", "sequence_first", "",
     "The weights sum to 1 over the batch, so examples depend on each other.", SOFTMAX),
    ("mask inverted", "masks", "rasbt/LLMs-from-scratch/issues/1061",
     "It masks the keys that the mask allows, and attends to the others.",
     MASK + ": here True = may attend; nn.MultiheadAttention and masked_fill mask where True"),
    ("mask added as 0/1", "masks", "pytorch/pytorch/issues/21518",
     "The mask is added to the scores as 0 and 1, which masks no key.",
     MASK + ": a mask that is added must be 0 and -inf"),
    ("mask transposed", "masks", "",
     "Where there are as many queries as keys, the mask is used with these axes exchanged.",
     MASK + ", and any transpose of the mask"),
    ("mask ignored", "masks", "", "The mask has no effect on the output.",
     MASK + ", if there is one: masked_fill() and where() return a new array"),
    ("mask after softmax", "masks", "",
     "The mask multiplies the weights after the softmax, so they no longer sum to 1.",
     MASK + ": it belongs before the softmax"),
    ("causal off by one", "masks", "", "The causal mask is one position off.", POSITIONS),
    ("causal mask inverted", "decoder_mask", "rasbt/LLMs-from-scratch/issues/1061",
     "A query attends to later keys, not to earlier ones.",
     POSITIONS + ", and what True means where it is used"),
    ("no causal mask", "decoder_mask", "Mikyx-1/TinyLLM/issues/17",
     "A query attends to later keys, too.",
     POSITIONS + ", and whether it is used in eval mode, too"),
    ("other causal alignment", "masks", "pytorch/pytorch/issues/108108",
     "For n_q ≠ n_k, the causal mask has the other alignment.", POSITIONS + ": is query 0 aligned "
     "with key 0 (upper left), or the last query with the last key (lower right)?"),
    ("window", "masks", "", "A query attends only to the keys near its own position.",
     "anything else in the mask: a band, a window, a limit on the distance"),
    ("mask value too high", "masks", "hyunwoongko/transformer/issues/10",
     "The mask value is finite and not low enough, so masked keys keep some weight.",
     MASK + ": use -inf, or the lowest number of the dtype"),
    ("q and k swapped", "self_attention", "", "The scores are k qᵀ; expected q kᵀ.",
     "the order of q and k in their product"),
    ("k and v swapped", "self_attention", "jsbaan/transformer-from-scratch/issues/1",
     "The scores are q vᵀ, and the context averages the keys; expected q kᵀ and the values.",
     "the order of k and v, from the line that computes them to the line that uses them"),
    ("tile for repeat", "fewer_heads", "onnx/onnx/pull/7274",
     "With fewer heads of k and v, query heads use them as 0 1 0 1; expected 0 0 1 1.",
     "the line that repeats the heads of k and v: use repeat_interleave, not repeat or tile"),
    ("weights not used", "soft_lookup", "",
     "Each query gets its own value; expected the average of all values by its weights.",
     "the product of weights and v, and whether its result is used"),
    ("dropout in eval", "packed_and_fused", "pytorch/pytorch/issues/124464",
     "Dropout is on although the program is not in training.",
     "dropout_p (SDPA ignores eval()), training=, and an nn.Dropout that is made in forward"))
SPLIT = "the view or reshape that splits heads: (b, i, h, d) first, then transpose to (b, h, i, d)"
MERGE = "the lines after weights @ v: transpose back to (b, i, h, d), then reshape"
INPUTS = "the lines that compute q, k and v, and the order of the arguments where it is called"
PACKED = "the chunk, split or reshape that separates q, k and v"
LAYER = _faults(
    "layer",
    ("split without transpose", "view_and_transpose", "",
     "The projection is viewed as (b, h, i, d) without a transpose, which tears the heads.", SPLIT),
    ("merge without transpose", "view_and_transpose", "jsbaan/transformer-from-scratch/pull/6",
     "The context of the heads is reshaped without the transpose, which mixes tokens.", MERGE),
    ("split and merge without transpose", "view_and_transpose",
     "649453932/Chinese-Text-Classification-Pytorch/issues/10",
     "Heads are split and merged without a transpose, so each head is torn.",
     SPLIT + "; and " + MERGE),
    ("shared head", "per_head_loops", "BobMcDear/attorch/issues/14",
     "All heads use the projection of one head.",
     "the loop or index that selects the columns of a head"),
    ("input split before projection", "per_head_loops",
     "aladdinpersson/Machine-Learning-Collection/issues/3",
     "Each head projects its own dimensions of the input; expected all dimensions.",
     "the order of the projection and the split"),
    ("missing W_o", "per_head_loops", "",
     "The merged heads are returned without the projection by W_o.",
     "the last line: one more projection"),
    ("missing bias", "weights_and_apis", "",
     "The biases of the projections are there, but not all of them are added.",
     "the four projections: x @ W + b"),
    ("transposed weight", "weights_and_apis", "rasbt/LLMs-from-scratch/issues/857",
     "A weight is used as x @ W.T; expected x @ W.",
     "the line that loads the weights: nn.Linear stores (out, in)"),
    ("padding leak", "decoder_mask", "keras-team/keras-hub/issues/137",
     "Padding is not masked everywhere.",
     "the line that gives the mask its axes for heads and queries"),
    ("batch and sequence swapped", "sequence_first", "aipixel/AEMatter/issues/3",
     "The first two axes are exchanged, so each position attends over the batch.",
     "batch_first, and any transpose(0, 1)"),
    ("LayerNorm over time", "decoder_mask", "",
     "The LayerNorm runs over the positions, so outputs depend on later tokens, too.",
     "the axis of the normalisation"),
    ("packed order", "weights_and_apis", "jsbaan/transformer-from-scratch/issues/1",
     "q, k and v are read from the packed weights in another order.", PACKED),
    ("wrong projection", "weights_and_apis", "",
     "One of q, k and v is made by the projection of another.",
     "the lines that compute q, k and v: which projection does each of them use?"),
    ("memory ignored", "encoder_decoder", "", "k or v is made from x; expected from memory.",
     INPUTS),
    ("x and memory exchanged", "encoder_decoder", "", "q is made from memory; expected from x.",
     INPUTS),
    ("interleaved packing", "weights_and_apis", "",
     "The packed projection is stored as (3, h, d) and read in another order, or vice versa.",
     PACKED),
    ("other example's mask", "transpose_qkv", "lsdefine/attention-is-all-you-need-keras/issues/28",
     "An example gets the mask of another example.",
     "the line that repeats the mask for heads: its order must be that of the folded axis"),
    ("new layer in every call", "multi_head_layer", "",
     "Each call makes a layer anew, with new random weights that are never trained.",
     "any layer that forward makes: make it in __init__"))
CACHE = "the lines that put new keys and values into the cache"
DECODING = _faults(
    "decoding",
    ("cache position", "kv_cache", "pytorch/pytorch/issues/103082",
     "The causal mask ignores the cached positions, so new queries miss earlier keys.",
     POSITIONS + ": the last query must be aligned with the last key"),
    ("unmasked prompt", "kv_cache", "Mikyx-1/TinyLLM/issues/17",
     "Positions of one chunk attend to later positions of that chunk.",
     "the condition under which the causal mask is used"),
    ("cache not appended", "kv_cache", "", "New keys and values are not added to the cache.",
     CACHE + ", and what is returned"),
    ("cache overwritten", "kv_cache", "", "New keys and values replace those in the cache.",
     CACHE + ": concatenate along the sequence"),
    ("positions restart", "kv_cache", "",
     "The positions of a new chunk begin at 0; expected behind those in the cache.",
     "the offset of the positions, which is the number of keys in the cache"),
    ("keys cached, values not", "kv_cache", "",
     "Queries attend to earlier keys, but their values are lost.", CACHE))
ROTATION, NORM = "the rotation of q and k", "the norm of q and k"
DISTANCE = "the line that limits the distance of query and key"
TANH, COLUMN = "the tanh on the scores", "the column of the sink"
SCORES = "the scale of the scores"
# Of parts that a program is told to have, so they are asked for with ``parts=`` only.
TODAY = _faults(
    "kernel",
    ("no RoPE", "positions", "", "q and k are not rotated by their positions.", ROTATION),
    ("other RoPE pairing", "positions", "sgl-project/sglang/pull/30111",
     "RoPE rotates other pairs of dimensions together.", ROTATION),
    ("other RoPE base", "positions", "", "The angles of RoPE are computed from another base.",
     ROTATION),
    ("RoPE off by one", "positions", "", "The positions of queries and keys are one apart.",
     ROTATION),
    ("RoPE not on both", "positions", "", "Only one of q and k is rotated by its positions.",
     ROTATION),
    ("RoPE on values", "positions", "", "The values are rotated by their positions, too.",
     ROTATION),
    ("no QK-norm", "todays_models", "", "q and k are not normalised.", NORM),
    ("QK-norm over all heads", "todays_models", "vllm-project/vllm/pull/16311",
     "All heads are normalised together; expected each by itself.", NORM),
    ("QK-norm of each head", "todays_models", "",
     "Each head is normalised by itself; expected all together.", NORM),
    ("other gain", "todays_models", "NeuraLegion/shainet/pull/176", "The gain of the norm means γ "
     "in the weights and 1 + γ in the program, or the other way round.", NORM),
    ("window off by one", "todays_models", "huggingface/transformers/issues/39408",
     "A query sees one key too many or too few.", DISTANCE),
    ("no window", "todays_models", "", "The keys that a query sees are not limited by a window.",
     DISTANCE),
    ("other soft-capping", "todays_models", "",
     "The scores are not bounded by a tanh as they should be.", TANH),
    ("soft-capping after the mask", "todays_models", "onnx/onnx/pull/7867",
     "The scores are masked before the tanh, which makes the mask value finite.", TANH),
    ("no sink", "todays_models", "",
     "The softmax has no sink, so the weights of the keys sum to 1.", COLUMN),
    ("sink scaled", "todays_models", "",
     "The sink is divided by √d together with the scores, so it is too near 0.", COLUMN),
    ("other column dropped", "todays_models", "", "Not the sink is dropped after the softmax but "
     "the last key, so each key gets the weight of the one before it.", COLUMN),
    ("YaRN's factor twice", "long_context", "sgl-project/sglang/pull/33558",
     "The temperature of YaRN is used twice.", SCORES),
    ("no YaRN factor", "long_context", "turboderp-org/exllamav3/issues/259",
     "The temperature of YaRN is not used.", SCORES))
FAULTS = {fault.name: fault for fault in KERNEL + LAYER + DECODING + TODAY}

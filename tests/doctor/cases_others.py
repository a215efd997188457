"""Verdicts, declared before the doctor sees the programs.

() is healthy; ("design", what) is healthy and unusual; a tuple with the name of a fault is
sick with it; ("?", what) is sick with a bug that no name of the doctor's list fits.
"""

CASES = {
    # healthy, standard
    ("annotated_fn.py", "attention"): (),
    ("bmm_attn.py", "dot_attention"): (),
    ("functional_attn.py", "sdpa_reference"): (),
    ("d2l_style.py", "DotProductAttention"): (),
    ("jit_ops.py", "fused_attention"): (),
    ("online.py", "flash_attention"): (),
    ("np_attention.py", "scaled_dot_product_attention"): (),
    ("numpy_mha.py", "MultiHeadAttention"): (),
    ("given_weights.py", "self_attention"): (),
    ("mha_loop.py", "multi_head_attention"): (),
    ("pico.py", "causal_mha"): (),
    ("tf_attention.py", "scaled_dot_product_attention"): (),
    ("tf_attention.py", "MultiHeadAttention"): (),
    ("char_gpt.ipynb", "CharAttention"): (),
    ("sdp_module.py", "ScaledDotProductAttention"): (),
    ("kernels.py", "full_attention"): (),
    ("kernels.py", "causal_attention"): (),
    # healthy designs
    ("alignment.py", "soft_align"): (
        "design", "the keys are the values (y); a temperature besides 1/sqrt(d)"),
    ("einsum_kernels.py", "attend_bnhd"): (
        "design", "heads on the third axis, (b, n, h, d); causal=True aligns to the end"),
    ("np_self.py", "SelfAttention"): (
        "design", "a single head; no output projection"),
    ("keras_layers.py", "SeriesSelfAttention"): (
        "design", "a single head; no output projection; Keras mask (b, n), True = use"),
    ("efficient.py", "linear_attention"): (
        "design", "linear attention, elu + 1 in place of the softmax"),
    ("efficient.py", "cosine_attention"): (
        "design", "cosine attention: scores are cosines / tau at every d"),
    # sick
    ("single_seq.py", "causal_attend"): ("causal off by one",),
    ("attn_dk.py", "attention"): ("mask value too high",),
    ("einsum_kernels.py", "attend_bhnd"): ("softmax over heads",),
    ("np_homework.py", "self_attention"): ("softmax over queries",),
    ("keras_layers.py", "ScaledSelfAttention"): ("no scale",),
    ("char_gpt.ipynb", "dot_product_attention"): (
        "?", "divided by sqrt(d) after the softmax: no scale in it, rows sum to 1/sqrt(d)"),
    ("attn_core.py", "DotProductCore"): (
        "?", "scaled by sqrt of the number of keys, in place of sqrt(d)"),
    ("np_masked.py", "attention"): ("mask after softmax",),
    ("np_cross.py", "CrossAttention"): ("k and v swapped",),
    ("np_encoder.py", "MultiHeadSelfAttention"): ("split without transpose",),
    ("np_scratch.py", "attention"): (
        "?", "keepdims missing: the rows' maxima and sums are applied to the columns"),
    ("decoder_fn.py", "attention"): ("mask inverted",),
    ("chatbot_attention.py", "attention"): (
        "?", "padding mask broadcast over the wrong axis: hides padded queries, not keys"),
}

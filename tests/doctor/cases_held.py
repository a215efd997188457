"""Verdicts on programs of unusual designs, declared before the doctor sees them.

They are written as those of ``cases_modules``.
"""

D = "design"

CASES = {
    # torch modules
    ("char_lm.py", "Head"): (D, "one causal head, no output projection, global sizes"),
    ("char_lm.py", "MultiHeadAttention"): (),
    ("bard.py", "Head"): ("scale by sqrt(d_model)",),
    ("gpt_config.py", "CausalSelfAttention"): (),
    ("bert_layer.py", "BertSelfAttention"): (
        D, "no output projection, additive mask (0 / -10000), returns a tuple"),
    ("bert_layer.py", "BertAttention"): (
        D, "post-norm and residual, additive mask (0 / -10000), returns a tuple"),
    ("annotated.py", "MultiHeadedAttention"): (),
    ("vit_small.py", "Attention"): (D, "pre-norm inside, dim_head apart from dim"),
    ("patch_encoder.py", "PatchAttention"): ("merge without transpose",),
    ("unet_blocks.py", "AttnBlock"): (D, "on (b, c, h, w), GroupNorm inside, residual"),
    ("cross_attention.py", "CrossAttention"): (
        D, "separate context width, dim_head apart from dim, boolean key mask (True keeps)"),
    ("wide_heads.py", "SelfAttentionWide"): (
        D, "every head as wide as the embedding, q and k each over e^(1/4), causal by a flag"),
    ("tl_attention.py", "Attention"): (D, "3-D weights per head, causal"),
    ("dense_gat.py", "DotGraphAttention"): ("mask after softmax",),
    ("full_attention.py", "FullAttention"): (
        D, "module without weights on (B, L, H, E), returns (V, A or None), causal by default"),
    ("full_attention.py", "AttentionLayer"): (
        D, "takes the inner attention as a constructor argument, mask is an object"),
    ("luong.py", "LuongAttention"): (
        D, "no scale, keys projected only, values are the encoder outputs, time first"),
    ("sasrec.py", "SASRecBlock"): (
        D, "only the query is normed, residual to the normed query, padding set to zero "
           "and not masked, causal"),
    ("traffic_encoder.py", "TemporalEncoder"): ("batch and sequence swapped",),
    ("point_attn.py", "PointAttention"): (
        "?", "(b, c, n) is viewed as (b, n, c) where a transpose is needed"),
    ("sagan.py", "SelfAttn"): (
        "?", "the weights are not transposed in value @ attention, so output j sums over the "
             "queries i with a[i, j], which do not sum to 1 (gamma starts at 0 and hides it)"),
    ("llama.py", "Attention"): (
        D, "grouped queries, RoPE given as complex freqs_cis, additive mask (0 / -inf)"),
    ("tiny_qwen.py", "GroupedQueryAttention"): ("tile for repeat",),
    ("sinks_and_gates.py", "SinkAttention"): (D, "a learned sink logit per head, causal"),
    ("rel_attention.py", "T5Attention"): (D, "relative position bias, no scale"),
    ("rel_attention.py", "TalkingHeadsAttention"): (
        D, "talking heads: mixes of the heads before and after the softmax"),
    # kernels
    ("annotated.py", "attention"): (),
    ("unet_blocks.py", "linear_attention"): (D, "linear attention, elu + 1"),
    ("np_attention.py", "scaled_dot_product_attention"): (),
    ("hw3_attention.py", "attention_forward"): ("softmax over queries",),
    ("tf_translate.py", "scaled_dot_product_attention"): (),
    ("tf_news.py", "masked_dot_attention"): ("mask added as 0/1",),
    ("attn_variants.py", "cosine_attention"): (D, "cosine similarity with a temperature"),
    ("attn_variants.py", "alibi_attention"): (D, "ALiBi, causal"),
    ("ragged.py", "attend"): ("mask inverted",),
    ("d2l_attn.py", "dot_product_attention"): ("mask value too high",),
    ("flash_toy.py", "naive_causal_attention"): ("causal off by one",),
    ("flash_toy.py", "flash_attention"): (),
    # Keras layers
    ("tf_translate.py", "MultiHeadAttention"): (),
    ("keras_text.py", "Self_Attention"): ("no scale",),
    ("keras_text.py", "BahdanauAttention"): (D, "additive scores, one query, values as given"),
    ("keras_series.py", "MultiHeadSeriesAttention"): ("split and merge without transpose",),
    # NumPy classes
    ("np_attention.py", "MultiHeadSelfAttention"): ("input split before projection",),
    ("np_layers.py", "MultiHeadAttention"): (),
    ("np_llama.py", "CachedAttention"): (
        D, "key-value cache with start_pos, causal, weights given to the constructor"),
    # functions of weights
    ("sinks_and_gates.py", "gated_attention"): (
        D, "sigmoid gate on the heads from the input, causal"),
    ("pico.py", "mha"): (),
    ("functional_decoder.py", "masked_multi_head_attention"): ("causal mask inverted",),
}

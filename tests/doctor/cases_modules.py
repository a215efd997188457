"""Verdicts, declared before the doctor sees the programs.

() is healthy; ("design", what) is healthy and unusual; a tuple with the name of a fault is
sick with it; ("?", what) is sick with a bug that no name of the doctor's list fits.
"""

CASES = {
    # healthy, standard
    ("annotated.py", "MultiHeadedAttention"): (),
    ("gpt_small.py", "CausalSelfAttention"): (),
    ("mingpt_cached.py", "PastSelfAttention"): (),
    ("vit_block.py", "PatchAttention"): (),
    ("seq2seq_layers.py", "MultiHeadAttentionLayer"): (),
    ("decoder_layer.py", "MemoryAttention"): (),
    ("toy_heads.py", "SlowMultiHead"): (),
    ("circuits.py", "HookedAttention"): (),
    ("cross_attn.py", "TextConditioning"): (),
    ("torch_wrap.py", "TimestepAttention"): (),
    ("flash_lm.py", "FlashSelfAttention"): (),
    ("lens_attention.py", "LensMultiHeadAttention"): (),
    ("llm_chapter.py", "CausalMHA"): (),
    ("tsl_attention.py", "AttentionLayer"): (),
    ("graph_layer.py", "NeighbourAttention"): (),
    # healthy designs
    ("modeling_docbert.py", "DocBertSelfAttention"): (
        "design", "no output projection; additive mask"),
    ("t5_attention.py", "T5LikeAttention"): (
        "design", "no scale, as in T5 (it is in the initialisation); relative bias None"),
    ("babygpt.py", "Head"): (
        "design", "a single causal head; no output projection"),
    ("unet_attn.py", "SpatialAttention"): (
        "design", "image-shaped input (b, c, h, w); GroupNorm inside and residual"),
    ("wide_heads.py", "WideHeads"): (
        "design", "heads as wide as the model; no biases"),
    ("sublayers.py", "MultiHeadAttention"): (
        "design", "post-norm and residual; d_k and d_v given"),
    ("torch_wrap.py", "AttentionBlock"): (
        "design", "nn.MultiheadAttention with post-norm and residual"),
    ("rope_model.py", "RotaryAttention"): (
        "design", "RoPE; causal only by the additive mask that it is given"),
    ("kv_sharing.py", "GroupedQueryAttention"): (
        "design", "grouped queries"),
    ("kv_sharing.py", "MultiQueryAttention"): (
        "design", "multi-query: one head of keys and values; causal; optional cache"),
    ("qk_norm.py", "NormedAttention"): (
        "design", "QK-norm (RMSNorm on the queries and keys)"),
    ("local_attn.py", "SlidingWindowAttention"): (
        "design", "causal sliding window"),
    ("seq_first.py", "MultiheadAttention"): (
        "design", "sequence first (n, b, d)"),
    ("prenorm.py", "PreNormAttention"): (
        "design", "pre-norm and residual inside"),
    # sick
    ("speech_attn.py", "AcousticMultiHead"): ("no scale",),
    ("translate_attn.py", "TranslationAttention"): ("scale by sqrt(d_model)",),
    ("ctr_interact.py", "FieldInteraction"): ("split and merge without transpose",),
    ("kd_modules.py", "SetMultiHeadAttention"): ("softmax over queries",),
    ("sdpa_encoder.py", "FusedSelfAttention"): ("mask inverted",),
    ("homework.py", "MultiHeadAttentionHW"): ("mask after softmax",),
    ("protein_attn.py", "ResidueAttention"): ("dropout in eval",),
    ("perceiver_bits.py", "LatentAttention"): (
        "?", "keys used as values: the values are made with to_k, and to_v is never used"),
    ("music_gpt.py", "EventSelfAttention"): ("causal off by one",),
    ("char_model.py", "CharAttention"): (
        "?", "causal mask never applied to later rows: the loop runs over the heads, so only "
        "the first h queries are masked"),
    ("pointcloud.py", "PointSelfAttention"): ("q and k swapped",),
    ("tiny_bert.py", "TinyBertAttention"): (
        "?", "same weights for q and k: the keys are made with query, and key is never used"),
    ("babygpt.py", "MultiHead"): ("missing W_o",),
    ("sentiment.py", "ReviewAttention"): ("mask value too high",),
    ("heads_loop.py", "LoopMultiHead"): ("shared head",),
}

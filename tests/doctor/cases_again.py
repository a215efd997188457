"""Verdicts on a fourth set, in the styles of public repositories, declared before the first run.

They are written as those of ``cases_modules``.
"""

D = "design"

CASES = {
    ("vit_backbone.py", "Attention"): (),
    ("char_gpt.py", "CausalSelfAttention"): (),
    ("distil_encoder.py", "MultiHeadSelfAttention"): (),
    # GroupNorm, 1x1 convolutions, residual; x is (b, c, h, w)
    ("ddpm_unet.py", "AttentionBlock"): (),
    ("latent_blocks.py", "CrossAttention"): (),
    # a LayerNorm on each of the two inputs
    ("perceiver_io.py", "PerceiverAttention"): (),
    ("asr_attention.py", "MultiHeadedAttention"): (),
    ("speech_decoder.py", "MultiHeadAttention"): (),
    ("sasrec.py", "ItemSelfAttention"): (),
    # by default its mask_flag is False, and then the mask is ignored on purpose
    ("forecaster.py", "FullAttention"): (),
    ("annotated_nmt.py", "MultiHeadedAttention"): (),
    ("numpy_gpt2.py", "attention"): (),
    ("scratch_mha.py", "MultiHeadAttention"): (),
    ("tf_translation.py", "MultiHeadAttention"): (),
    ("keras_bert.py", "EncoderSelfAttention"): (),
    ("molecule_net.py", "GraphSelfAttention"): (),
    ("entity_policy.py", "EntityAttention"): (),
    ("route_net.py", "MultiHeadAttention"): (),
    ("wav_encoder.py", "MultiheadAttention"): (),
    ("functional_core.py", "scaled_dot_product"): (),
    ("bard_gpt.py", "MultiHeadAttention"): (),
    ("packed_mha.py", "MultiHeadSelfAttention"): ("missing bias",),
    ("tiny_llm.py", "Attention"): ("RoPE not on both",),
    ("keras_decoder.py", "CausalAttention"): ("causal off by one",),
    # no scale before it: this is the whole fault
    ("citation_graph.py", "NodeAttention"): ("scaled after softmax",),
    ("kv_decoder.py", "CachedAttention"): ("keys cached, values not",),
    ("music_transformer.py", "RotarySelfAttention"): ("RoPE off by one",),
    ("story_gpt.py", "Attention"): ("cache position",),
    ("dt_policy.py", "MaskedCausalAttention"): ("no causal mask",),
    ("ts_encoder.py", "TemporalAttention"): ("LayerNorm over time",),
    ("bert_tagger.py", "MultiHeadAttention"): ("split without transpose",),
    ("las_asr.py", "DotAttention"): ("softmax over queries",),
    ("mae_vit.py", "Attention"): ("dropout in eval",),
    ("llama_like.py", "Attention"): (D, "RoPE (tables passed in), grouped keys"),
    ("vit_qknorm.py", "QKNormAttention"): (D, "QK-norm"),
    ("local_lm.py", "SlidingWindowAttention"): (D, "causal window"),
    ("swin_stage.py", "WindowAttention"): (
        D, "relative position bias (window_size is a pair, mask per window)"),
    ("imputation.py", "MultiHeadAttention"): (D, "post-norm with residual"),
    ("msa_module.py", "GatedAttention"): (D, "gate"),
    ("news_rec.py", "SelfAttention"): (D, "no W_o (NRMS), list of inputs"),
}

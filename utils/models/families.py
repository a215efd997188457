"""What the models of one ``model_type`` have in common; ``configuration`` reads the rest.

Each family is a model of transformers 5.23.0, in
https://github.com/huggingface/transformers/tree/v5.23.0/src/transformers/models. ``defaults`` are
those of its configuration class: a config.json may leave these fields out.
"""

from typing import NamedTuple

# The place of a norm in a block, and its name in a state dict, which says little about the place.
BEFORE = {"before_attention": "input_layernorm", "before_feed_forward": "post_attention_layernorm"}
AFTER = {"after_attention": "post_attention_layernorm",
         "after_feed_forward": "post_feedforward_layernorm"}
AROUND = {**AFTER, "before_attention": "input_layernorm",
          "before_feed_forward": "pre_feedforward_layernorm"}


class Family(NamedTuple):
    """One ``model_type``.

    ``norms`` are BEFORE, AFTER or AROUND. ``fixed`` are the parts of a ``configuration.Plan`` that
    its configuration does not choose. Every ``period``-th layer attends to all tokens, the others
    have a window; None = another rule. ``by_kind``: RoPE differs between these two kinds of layers.
    """

    defaults: dict
    norms: dict = BEFORE
    fixed: dict | None = None
    period: int | None = None
    by_kind: bool = False


SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
         "num_attention_heads")  # these have no default here
_SAME = {"num_key_value_heads": None, "head_dim": None, "hidden_act": "silu", "rms_norm_eps": 1e-6,
         "tie_word_embeddings": False, "max_position_embeddings": 32768, "rope_parameters": None,
         "eos_token_id": None, "attention_dropout": 0.0}
_QWEN = {**_SAME, "num_key_value_heads": 32, "use_sliding_window": False, "sliding_window": 4096,
         "max_window_layers": 28, "layer_types": None}
_OLMO = {**_SAME, "rms_norm_eps": 1e-5, "attention_bias": False, "max_position_embeddings": 2048,
         "eos_token_id": 50279}
_GEMMA = {**_SAME, "num_key_value_heads": 4, "head_dim": 256, "attention_bias": False,
          "query_pre_attn_scalar": 256, "sliding_window": 4096, "layer_types": None,
          "tie_word_embeddings": True, "hidden_activation": "gelu_pytorch_tanh", "eos_token_id": 1,
          "use_bidirectional_attention": None}
del _GEMMA["hidden_act"]
_PLUS_ONE = {"plus_one": True, "scaled_embedding": True}

FAMILIES = {
    "llama": Family({**_SAME, "max_position_embeddings": 2048, "attention_bias": False,
                     "mlp_bias": False, "eos_token_id": 2}),
    "mistral": Family({**_SAME, "num_key_value_heads": 8, "sliding_window": 4096,
                       "max_position_embeddings": 131072, "eos_token_id": 2}),
    "qwen2": Family(_QWEN, fixed={"qkv_bias": True, "out_bias": False}),
    "qwen3": Family({**_QWEN, "head_dim": 128, "attention_bias": False},
                    fixed={"qk_norm": "head"}),
    "smollm3": Family({**_SAME, "num_key_value_heads": 4, "attention_bias": False,
                       "mlp_bias": False, "use_sliding_window": False, "sliding_window": None,
                       "layer_types": None, "no_rope_layers": None, "no_rope_layer_interval": 4,
                       "tie_word_embeddings": True, "eos_token_id": 128001}),
    "gemma2": Family({**_GEMMA, "max_position_embeddings": 8192, "final_logit_softcapping": 30.0,
                      "attn_logit_softcapping": 50.0}, AROUND, _PLUS_ONE, period=2),
    "gemma3_text": Family({**_GEMMA, "max_position_embeddings": 131072,
                           "final_logit_softcapping": None, "attn_logit_softcapping": None,
                           "use_bidirectional_attention": False, "sliding_window_pattern": 6},
                          AROUND, {**_PLUS_ONE, "qk_norm": "head"}, period=6, by_kind=True),
    "gpt_oss": Family({**_SAME, "num_key_value_heads": 8, "head_dim": 64, "rms_norm_eps": 1e-5,
                       "sliding_window": 128, "layer_types": None, "attention_bias": True,
                       "max_position_embeddings": 131072, "num_local_experts": 128,
                       "num_experts_per_tok": 4, "swiglu_alpha": 1.702, "swiglu_limit": 7.0},
                      fixed={"sink": True}, period=2),
    "olmo2": Family(_OLMO, AFTER, {"qk_norm": "width"}),
    "olmo3": Family({**_OLMO, "sliding_window": 4096, "layer_types": None}, AFTER,
                    {"qk_norm": "width"}, period=4, by_kind=True),
}

BASES = {"smollm3": 2_000_000.0, "gpt_oss": 150_000.0, "olmo3": 500_000.0,
         "gemma3_text": 1_000_000.0}  # of RoPE; else 10,000
LOCAL_BASES = {"olmo3": 500_000.0, "gemma3_text": 10_000.0}  # of RoPE in layers with a window
GPT_OSS_ROPE = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                "truncate": False, "original_max_position_embeddings": 4096}

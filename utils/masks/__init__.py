"""Masks: functions that build them, and conversions to and from other conventions.

A mask here is called ``keep``: bool, **True = this query may attend to this key**.
"""

from .array_libraries import from_jax, from_mlx, to_jax, to_mlx
from .builders import band, causal, chunks, decoder, offsets, padding, window
from .conventions import (
    from_additive,
    from_drop,
    from_keras,
    from_key_padding,
    from_onnx,
    from_sdpa,
    from_sequence_first,
    from_torch_mha,
    from_valid_lens,
    to_additive,
    to_drop,
    to_keras,
    to_key_padding,
    to_onnx,
    to_sdpa,
    to_sequence_first,
    to_torch_mha,
    to_valid_lens,
)

__all__ = [
    "band", "causal", "chunks", "decoder", "from_additive", "from_drop", "from_jax", "from_keras",
    "from_key_padding", "from_mlx", "from_onnx", "from_sdpa", "from_sequence_first",
    "from_torch_mha", "from_valid_lens", "offsets", "padding", "to_additive", "to_drop", "to_jax",
    "to_keras", "to_key_padding", "to_mlx", "to_onnx", "to_sdpa", "to_sequence_first",
    "to_torch_mha", "to_valid_lens", "window",
]

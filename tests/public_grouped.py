"""Arguments of a call of each public function of grouped attention, for test_public.py."""

import torch

from utils import grouped, kv_sizes, language_model, preallocated, sizes

Q, K, V = (torch.as_tensor(side).float() for side in sizes.qkv(heads=6, kv_heads=2))
NEW_K, NEW_V = (torch.randn(2, 2, 5, width) for width in (4, 8))
KEEP = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])[:, None, None]
WORDS, PLACES = torch.randn(2, 5, 12), torch.arange(5).expand(2, 5)
LAYER = grouped.GroupedAttention(12, 6, 2)
ROTARY = grouped.GroupedRotary(24, 6, 2)
MODEL = language_model.LanguageModel(7, d_model=24, n_heads=6, n_layers=2)
GEMMA = kv_sizes.MODELS["Gemma 2 9B"]

CALLS = {
    "grouped.GroupedAttention.project": (LAYER, WORDS),
    "grouped.GroupedRotary.heads_at": (ROTARY, torch.randn(2, 5, 24), PLACES),
    "grouped.folded_attention": (Q, K, V, KEEP),
    "grouped.grouped_attention": (Q, K, V, KEEP),
    "grouped.regrouped": (MODEL, 2, lambda heads: heads.mean(dim=1)),
    "grouped_checks.not_recorded": (K, V),
    "grouped_checks.shared": (Q, K, V),
    "kv_sizes.bytes_per_token": (GEMMA,),
    "kv_sizes.cache_bytes": (GEMMA, 5000),
    "kv_sizes.outweighs": (GEMMA,),
    "preallocated.PreallocatedCache.extend": (
        preallocated.PreallocatedCache(6, 3), NEW_K, NEW_V, PLACES),
    "preallocated.PreallocatedCache.still_seen": (
        preallocated.PreallocatedCache(6, 3), NEW_K, NEW_V, PLACES),
}
NOTHING_TO_MODIFY = {"grouped_checks.fits_room", "grouped_checks.group", "grouped_checks.room"}

"""Arguments of a call of each public function of utils.backward, for test_public.py."""

import numpy as np

from utils import backward, reference, sizes

ARRAYS = sizes.qkv()
SIDES, WEIGHTS = sizes.sides(), sizes.weights()
MAPS = reference.attention(*ARRAYS)[1]
KEPT = backward.multi_head_attention(*SIDES, WEIGHTS, 3)[1]
COTANGENT = np.random.default_rng(0).standard_normal((2, 5, 13))

CALLS = {
    "backward.attention_backward": (*ARRAYS, MAPS, np.ones((2, 3, 5, 8))),
    "backward.check_cotangent": (COTANGENT, (2, 5, 13)),
    "backward.linear_backward": (SIDES[0], WEIGHTS["W_q"], np.ones((2, 5, 12))),
    "backward.merge": (ARRAYS[0],),
    "backward.multi_head_attention": (*SIDES, WEIGHTS, 3, np.ones((5, 7), dtype=bool)),
    "backward.multi_head_attention_backward": (KEPT, COTANGENT),
    "backward.softmax_backward": (MAPS, np.ones_like(MAPS)),
    "backward.split": (np.ones((2, 5, 12)), 3),
}

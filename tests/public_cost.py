"""Arguments of a call of each public function of the chapter on what attention costs."""

import numpy as np
import torch

LENGTHS = np.array([128, 256, 1024])

CALLS = {
    "costs.crossing": (LENGTHS, 1e-6 * LENGTHS + 1e-8 * LENGTHS**2),
    "costs.moved": (lambda: torch.ones(3) + 1,),
    "costs.new_pages": (lambda: torch.ones(3) + 1,),
}
NOTHING_TO_MODIFY = {"costs.flops", "costs.held", "costs.traffic", "explore.cost_crossing"}

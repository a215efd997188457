"""Arguments of a call of each public function of the modules on training at scale."""

import torch

from utils.language_model import LanguageModel

TEXTS = torch.tensor([[1, 2, 3, 4], [4, 0, -1, -1], [2, 2, 2, -1]])
MODEL = LanguageModel(5, 12, 3, 1)

CALLS = {
    "data_parallel.dealt": (3, TEXTS),
    "data_parallel.lines_of": (3, TEXTS, 2),
    "data_parallel.share_of_mean": (torch.tensor(6.0), torch.tensor(4)),
    "data_parallel.summed_loss": (MODEL, TEXTS),
}
# Into the model and the optimiser, which is what they are for.
WRITES = {"data_parallel.take_step", "sharded_checkpoint.load"}
NOTHING_TO_MODIFY = {  # but a folder
    "data_parallel.place", "data_parallel.together", "sharded_checkpoint.newest",
    "sharded_checkpoint.save",
}

"""Arguments of a call of each public function of the modules on many machines."""

import torch

from utils import program_file, tensor_parallel

SEPARATE = tensor_parallel.SeparateAttention(12, 3)
WORDS = torch.randn(2, 5, 12)                          # (b, i, e)
KEEP = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])

CALLS = {
    "distributed_rank.moved": ({"a": [WORDS, (WORDS, 3)]}, "cpu"),
    "exchanges.kind_of": ("allreduce_",),
    "program_file.definition": (program_file.written,),
    "program_file.imports": ("import a",),
    "program_file.names": ("a = b",),
    "program_file.written": (program_file.names,),
    "tensor_parallel.SeparateAttention.forward": (SEPARATE, WORDS, KEEP[:, None, None], True),
    "tensor_parallel.SeparateAttention.heads": (SEPARATE, WORDS),
    "tensor_parallel.plan": (True,),
}
# These need other processes: test_distributed.py and test_many_machines.py run them. What they are
# given stays with them, since each process has a copy.
NOTHING_TO_MODIFY = {
    "distributed.launch", "distributed_rank.main", "distributed_rank.stored", "ring.pass_on",
    "ring.ring_attention",
}

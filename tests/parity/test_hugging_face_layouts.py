"""The converters read the attention layers of Hugging Face: their outputs are the reference's.

Llama and Falcon are in ``test_shared_heads``, BERT as a whole is in ``tests/models``.
"""

import numpy as np
import torch
import transformers
from transformers.models.bert.modeling_bert import BertAttention
from transformers.models.bloom.modeling_bloom import BloomAttention
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention
from transformers.models.phi3.modeling_phi3 import Phi3Attention

from utils import masks, reference
from utils.checks import difference
from utils.parity import shared_heads, weights

HEADS, E = 6, 24
X = np.random.default_rng(9).normal(size=(2, 5, E))
TX, PAST = torch.as_tensor(X), masks.causal(5)
AHEAD = torch.full((1, 1, 5, 5), -torch.inf, dtype=torch.float64).triu(1)
NO_ROTATION = (torch.ones(1, 5, 4).double(), torch.zeros(1, 5, 4).double())


def drawn(module):
    """Return the module in float64 and evaluation, with random parameters, biases included."""
    for n, p in enumerate(module.parameters()):
        p.data = torch.as_tensor(np.random.default_rng(n).normal(size=p.shape))
    return module.double().eval()


def close(got, W, keep=None):
    want, _ = reference.multi_head_attention(X, X, W, HEADS, keep)
    assert difference(got, want) < 1e-5  # some compute softmax in float32


def test_bert():
    config = transformers.BertConfig(hidden_size=E, num_attention_heads=HEADS,
                                     attn_implementation="eager")
    judge = drawn(BertAttention(config))
    state = {f"attention.{name}": w for name, w in judge.state_dict().items()}
    W = weights.from_linear(state, weights.NAMES["pretrained_encoder"])
    close(judge.output.dense(judge.self(TX)[0]), W)


def test_gpt2():
    config = transformers.GPT2Config(n_embd=E, n_head=HEADS, attn_implementation="eager")
    judge = drawn(GPT2Attention(config, layer_idx=0))
    parts = ({"w": part.weight, "b": part.bias} for part in (judge.c_attn, judge.c_proj))
    close(judge(TX, attention_mask=AHEAD)[0], weights.from_gpt2(*parts), PAST)


def test_gpt_neox():
    config = transformers.GPTNeoXConfig(hidden_size=E, num_attention_heads=HEADS,
                                        attn_implementation="eager")
    judge = drawn(GPTNeoXAttention(config, 0))
    out = judge(TX, AHEAD, position_embeddings=NO_ROTATION)[0]
    close(out, weights.from_interleaved(judge.state_dict(), HEADS), PAST)


def test_bloom():
    judge = drawn(BloomAttention(transformers.BloomConfig(hidden_size=E, n_head=HEADS), 0))
    out = judge(TX, torch.zeros_like(TX), alibi=torch.zeros(2 * HEADS, 1, 5).double(),
                attention_mask=AHEAD)[0]
    close(out, weights.from_interleaved(judge.state_dict(), HEADS), PAST)


def test_phi_3():
    config = transformers.Phi3Config(hidden_size=E, num_attention_heads=HEADS,
                                     num_key_value_heads=2, pad_token_id=0,
                                     attn_implementation="eager")
    judge = drawn(Phi3Attention(config, 0))
    params = shared_heads.from_fused(judge.state_dict(), HEADS, 2)
    out = judge(TX, position_embeddings=NO_ROTATION, attention_mask=AHEAD)[0]
    close(out, shared_heads.to_weight_set(params, HEADS, 2), PAST)

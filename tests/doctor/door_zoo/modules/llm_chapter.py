"""Notes on chapter 3, the compact version."""
import torch
import torch.nn as nn


class CausalMHA(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("d_out has to be divisible by num_heads")
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads

        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

        future = torch.ones(context_length, context_length).triu(diagonal=1)
        self.register_buffer("mask", future.bool(), persistent=False)

    def forward(self, x):
        b, num_tokens, d_in = x.shape

        def heads(t):
            return t.view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)

        queries, keys = heads(self.W_query(x)), heads(self.W_key(x))
        scores = queries @ keys.mT / self.head_dim ** 0.5
        scores.masked_fill_(self.mask[:num_tokens, :num_tokens], -torch.inf)

        weights = self.dropout(scores.softmax(dim=-1))
        context = weights @ heads(self.W_value(x))
        return self.out_proj(context.transpose(1, 2).reshape(b, num_tokens, self.d_out))


inputs = torch.tensor(
    [[0.21, 0.48, 0.77],
     [0.65, 0.13, 0.59],
     [0.34, 0.92, 0.05],
     [0.88, 0.27, 0.41]]
)


if __name__ == "__main__":
    torch.manual_seed(123)
    batch = torch.stack((inputs, inputs), dim=0)
    mha = CausalMHA(d_in=3, d_out=4, context_length=4, dropout=0.0, num_heads=2)
    print(mha(batch))

import torch
from torch import nn
import torch.nn.functional as F

from tensorboardX import SummaryWriter

from .mask_util import mask_, d


class SelfAttentionWide(nn.Module):
    """
    Every head sees the whole embedding and is as wide as it.
    """

    def __init__(self, emb, heads=8, mask=False):
        super().__init__()

        self.emb = emb
        self.heads = heads
        self.mask = mask

        self.tokeys = nn.Linear(emb, emb * heads, bias=False)
        self.toqueries = nn.Linear(emb, emb * heads, bias=False)
        self.tovalues = nn.Linear(emb, emb * heads, bias=False)

        self.unifyheads = nn.Linear(heads * emb, emb)

    def forward(self, x):
        b, t, e = x.size()
        h = self.heads
        assert e == self.emb, f'embedding of {e}, layer of {self.emb}'

        def fold(y):
            # heads next to the batch
            return y.view(b, t, h, e).transpose(1, 2).reshape(b * h, t, e)

        queries = fold(self.toqueries(x)) / (e ** (1 / 4))
        keys = fold(self.tokeys(x)) / (e ** (1 / 4))
        values = fold(self.tovalues(x))

        dot = torch.bmm(queries, keys.transpose(1, 2))
        assert dot.size() == (b * h, t, t)

        if self.mask:
            mask_(dot, maskval=float('-inf'), mask_diagonal=False)

        dot = F.softmax(dot, dim=2)

        out = torch.bmm(dot, values).view(b, h, t, e)
        out = out.transpose(1, 2).contiguous().view(b, t, h * e)
        return self.unifyheads(out)


class Block(nn.Module):

    def __init__(self, emb, heads, mask, ff_hidden_mult=4, dropout=0.0):
        super().__init__()
        self.attention = SelfAttentionWide(emb, heads=heads, mask=mask)
        self.norm1 = nn.LayerNorm(emb)
        self.norm2 = nn.LayerNorm(emb)
        self.ff = nn.Sequential(
            nn.Linear(emb, ff_hidden_mult * emb),
            nn.ReLU(),
            nn.Linear(ff_hidden_mult * emb, emb))
        self.do = nn.Dropout(dropout)

    def forward(self, x):
        x = self.do(self.norm1(self.attention(x) + x))
        return self.do(self.norm2(self.ff(x) + x))


def go(arg):
    tbw = SummaryWriter(log_dir=arg.tb_dir)
    net = Block(arg.emb, arg.heads, mask=True).to(d())
    opt = torch.optim.Adam(net.parameters(), lr=arg.lr)
    for i in range(arg.num_batches):
        x = torch.randn(arg.batch_size, arg.context, arg.emb, device=d())
        loss = (net(x)[:, :-1] - x[:, 1:]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        tbw.add_scalar('loss', loss.item(), i)

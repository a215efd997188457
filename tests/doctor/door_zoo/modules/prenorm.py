import torch
import torch.nn as nn

from math import sqrt


class PreNormAttention(nn.Module):
    '''
    x -> LayerNorm -> attention -> + x

    Returns the new x, the attention weights and the raw scores (for the distillation loss).
    '''

    def __init__(self, d_model=256, n_heads=8, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.ln = nn.LayerNorm(d_model)
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        # mask: (n, n) bool, True positions get no attention
        b, n, d = x.shape
        q, k, v = self.in_proj(self.ln(x)).chunk(3, dim=-1)
        q = q.view(b, n, self.n_heads, self.d_head).transpose(1, 2)
        k = k.view(b, n, self.n_heads, self.d_head).transpose(1, 2)
        v = v.view(b, n, self.n_heads, self.d_head).transpose(1, 2)

        scores = q.matmul(k.transpose(-1, -2)) / sqrt(self.d_head)
        if mask is not None:
            scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)

        y = weights.matmul(v).transpose(1, 2).reshape(b, n, d)
        return x + self.drop(self.out_proj(y)), weights, scores


def relation_loss(student_scores, teacher_scores):
    student = student_scores.log_softmax(dim=-1)
    teacher = teacher_scores.softmax(dim=-1)
    return nn.functional.kl_div(student, teacher, reduction='batchmean')


def distill_step(student, teacher, x, optimizer):
    with torch.no_grad():
        _, _, target = teacher(x)
    _, _, scores = student(x)
    loss = relation_loss(scores, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == '__main__':
    t, s = PreNormAttention(64, 4).eval(), PreNormAttention(64, 4)
    opt = torch.optim.Adam(s.parameters(), lr=1e-3)
    for i in range(5):
        print(i, distill_step(s, t, torch.randn(8, 16, 64), opt))

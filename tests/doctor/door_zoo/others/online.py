"""Flash attention (forward), in plain PyTorch, to understand the tiling.

Only one tile of scores exists at a time; each row keeps its running maximum m and its
running denominator l, and what was summed before is corrected when m goes up.
"""
import torch

NEG_INF = float("-inf")


def flash_attention(Q, K, V, block_q=4, block_k=4, causal=False):
    """Q (..., N, d), K (..., M, d), V (..., M, d) -> (..., N, d)"""
    N, d = Q.shape[-2:]
    M = K.shape[-2]
    scale = d ** -0.5
    out = torch.empty(*Q.shape[:-1], V.shape[-1], dtype=Q.dtype, device=Q.device)

    for i0 in range(0, N, block_q):
        q = Q[..., i0:i0 + block_q, :] * scale
        rows = q.shape[-2]
        m = torch.full((*q.shape[:-1], 1), NEG_INF, dtype=Q.dtype, device=Q.device)
        l = torch.zeros_like(m)
        acc = torch.zeros(*q.shape[:-1], V.shape[-1], dtype=Q.dtype, device=Q.device)

        for j0 in range(0, M, block_k):
            if causal and j0 > i0 + rows - 1:
                break
            s = q @ K[..., j0:j0 + block_k, :].transpose(-1, -2)
            if causal:
                row_id = torch.arange(i0, i0 + rows, device=Q.device)[:, None]
                col_id = torch.arange(j0, j0 + s.shape[-1], device=Q.device)[None, :]
                s = s.masked_fill(col_id > row_id, NEG_INF)

            m_new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            p = torch.exp(s - m_new)
            fix = torch.exp(m - m_new)
            l = fix * l + p.sum(dim=-1, keepdim=True)
            acc = fix * acc + p @ V[..., j0:j0 + block_k, :]
            m = m_new

        out[..., i0:i0 + rows, :] = acc / l
    return out


def naive(Q, K, V):
    P = torch.softmax(Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5, dim=-1)
    return P @ V


if __name__ == "__main__":
    torch.manual_seed(0)
    Q, K, V = (torch.randn(2, 3, 13, 8) for _ in range(3))
    err = (flash_attention(Q, K, V) - naive(Q, K, V)).abs().max()
    print("max error", err.item())

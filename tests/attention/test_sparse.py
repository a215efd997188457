"""The choice of keys: by loops, by a prefix, and by the indexer of transformers."""

import math

import pytest
import torch
from exact import raises

from utils.attention.positions import rotate
from utils.attention.sparse import index_loss, index_scores, top_keys
from utils.checks import difference

GENERATOR = torch.Generator().manual_seed(0)


def random(*shape):
    return torch.randn(shape, generator=GENERATOR, dtype=torch.float64)


def allowed():
    """Return a causal mask (2, 7, 7); the second example has two columns of padding before it."""
    keep = torch.ones(2, 7, 7, dtype=torch.bool).tril()
    keep[1, :, :2] = False
    return keep


def test_the_scores_are_those_of_loops():
    q, k, w = random(2, 3, 5, 4), random(2, 7, 4), random(2, 3, 5)
    want = torch.zeros(2, 5, 7, dtype=torch.float64)
    for b, i, j, h in torch.cartesian_prod(*map(torch.arange, (2, 5, 7, 3))).tolist():
        want[b, i, j] += w[b, h, i] * max(0.0, (q[b, h, i] @ k[b, j]).item())
    assert difference(index_scores(q, k, w), want) < 1e-14


@pytest.mark.parametrize("n", [1, 3, 7, 50])
def test_each_query_gets_its_best_allowed_keys_and_no_other(n):
    scores, keep = random(2, 7, 7), allowed()
    chosen = top_keys(scores, keep, n)
    for b, i in torch.cartesian_prod(torch.arange(2), torch.arange(7)).tolist():
        keys = [j for j in range(7) if keep[b, i, j]]
        want = sorted(keys, key=lambda j: -scores[b, i, j])[:n]
        assert chosen[b, i].nonzero().flatten().tolist() == sorted(want)


def test_later_scores_change_no_choice():
    scores, keep = random(2, 7, 7), allowed()
    later = scores.clone()
    later[..., 4:] = 100.0
    assert torch.equal(top_keys(scores, keep, 2)[:, :4], top_keys(later, keep, 2)[:, :4])


def test_the_loss_is_a_divergence_and_trains_the_scores_alone():
    keep = torch.ones(2, 7, 7, dtype=torch.bool).tril()
    raw = random(2, 3, 7, 7).masked_fill(~keep[:, None], -math.inf).requires_grad_()
    weights, scores = raw.softmax(dim=-1), random(2, 7, 7).requires_grad_()
    target = weights.detach().mean(dim=1)
    want = 0.0
    for row, good, mask in zip(target.flatten(0, 1), scores.flatten(0, 1),
                               keep.flatten(0, 1), strict=True):
        p, log = row[mask], good[mask].log_softmax(dim=-1)
        want += (p * (p.log() - log)).sum().item() / 14
    loss = index_loss(scores, weights, keep)
    assert abs(loss.item() - want) < 1e-12
    loss.backward()
    assert raw.grad is None
    share = scores.detach().masked_fill(~keep, -math.inf).softmax(dim=-1)
    assert difference(scores.grad, (share - target) / 14) < 1e-12
    assert abs(index_loss(target.clamp(min=1e-300).log(), weights, keep).item()) < 1e-12


def test_the_choice_is_that_of_the_indexer_in_transformers():
    transformers = pytest.importorskip("transformers")
    from transformers.models.deepseek_v32 import modeling_deepseek_v32 as theirs

    config = transformers.DeepseekV32Config(
        hidden_size=12, q_lora_rank=10, qk_rope_head_dim=4, index_n_heads=3, index_head_dim=8,
        index_topk=3)
    torch.manual_seed(0)
    indexer = theirs.DeepseekV32Indexer(config, 0)
    x, low = torch.randn(2, 7, 12), torch.randn(2, 7, 10)
    angle = torch.arange(7.0)[:, None] * torch.tensor([1.0, 0.1])
    cos, sin = (torch.cat((part, part), dim=-1).expand(2, 7, 4)
                for part in (angle.cos(), angle.sin()))
    keep = torch.ones(2, 7, 7, dtype=torch.bool).tril()
    found = indexer(x, low, (cos, sin), keep, None)
    with torch.no_grad():
        q = indexer.wq_b(low).unflatten(-1, (3, 8)).transpose(1, 2)
        k = indexer.k_norm(indexer.wk(x))
        q, k = (torch.cat((rotate(side[..., :4], angle.cos(), angle.sin()), side[..., 4:]), dim=-1)
                for side in (q, k))
        scores = index_scores(q, k, indexer.weights_proj(x).mT) / math.sqrt(3 * 8)
    want = torch.zeros_like(keep).scatter(-1, found.long(), True) & keep
    assert torch.equal(top_keys(scores, keep, 3), want)


def test_what_does_not_fit_is_refused():
    with raises(ValueError, "q must be (…, h, i, d), k (…, j, d) and w (…, h, i), got q "
                            "(2, 3, 5, 4), k (2, 7, 4) and w (2, 5, 3)"):
        index_scores(random(2, 3, 5, 4), random(2, 7, 4), random(2, 5, 3))
    with raises(ValueError, "keep must have the shape of scores, got (7, 7) and (2, 7, 7)"):
        top_keys(random(2, 7, 7), allowed()[0], 2)
    with raises(ValueError, "n must be at least 1, got 0"):
        top_keys(random(2, 7, 7), allowed(), 0)

"""Arguments of a call of each public function of Part 3's modules, for test_public.py."""

import datetime

import torch

from utils import (
    bert,
    cache,
    language_model,
    ngrams,
    sizes,
    training,
    transformer,
)

torch.manual_seed(0)
X, MEMORY = (torch.as_tensor(side)[..., :10].float() for side in sizes.sides())
WORDS = torch.randn(2, 5, 12)                          # (b, i, e)
Q, K, V = (torch.as_tensor(side).float() for side in sizes.qkv(n_q=5, n_k=5))
KEEP = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
PLACES = torch.arange(5).expand(2, 5)
ANGLES = torch.rand(2, 5, 2)                           # cos and sin, of d = 4
MODEL = language_model.LanguageModel(7, d_model=12, n_heads=3, n_layers=2)
TOKENS = torch.randint(7, (2, 6))
CAUSAL, HELD = cache.CausalAttention(12, 3), cache.Cache()
HELD.extend(K, V, PLACES)
TEXT, NGRAMS = "abracadabra, abracadabra", ngrams.NGrams("abracadabra", 3, "abcdr,")
LOOKUP = ngrams.SoftLookup("abracadabra", span=2)
ENCODER_DECODER = transformer.EncoderDecoder(9, 12, 3, 24, 1, 1)
BERT = bert.Encoder(50, 20, 12, 3, 24)
REAL = KEEP
DAYS = [datetime.date(1979, 5, 3), datetime.date(2001, 9, 9)]


def a_run():
    """Return a Run of a small model that has not begun."""
    return training.new_run(MODEL, [torch.optim.SGD(MODEL.parameters(), lr=0.0)], 1)


CALLS = {
    "bert.Block.forward": (BERT.blocks[0], WORDS, KEEP[:, None, None]),
    "bert.Encoder.forward": (BERT, TOKENS[:, :5], REAL),
    "bert.embedding": (torch.randn(2, 3, 5, 12), REAL),
    "cache.Cache.extend": (cache.Cache(3), K, V, PLACES),
    "cache.Cache.next_positions": (HELD, WORDS),
    "cache.Cache.still_seen": (cache.Cache(3), K, V, PLACES),
    "cache.CausalAttention.forward": (CAUSAL, WORDS, PLACES),
    "cache.CausalAttention.heads_at": (CAUSAL, WORDS, PLACES),
    "cache.visible": (PLACES, PLACES, 2),
    "cache_checks.fits": (HELD.held, K, V, PLACES + 5),
    "cache_checks.latest": (PLACES,),
    "cache_checks.positions": (PLACES, 2, 5),
    "char_model.draw_loss": (MODEL, torch.Generator(), TOKENS.flatten(), 2, 5),
    "corpus.decode": ([0, 1, 1], "ab"),
    "corpus.draw": (TOKENS.flatten(), 3, 4, torch.Generator()),
    "corpus.rows": (["abca", "ccab"], "abc"),
    "corpus.say_again": (TOKENS, torch.Generator(), 2, 4),
    "head_scores.ablated": (MODEL, 1, 2, 0.5),
    "head_scores.all_weights": (MODEL, TOKENS),
    "head_scores.bits_at": (MODEL, TOKENS),
    "head_scores.bits_without_each": (MODEL, TOKENS, torch.zeros(2, 3, 4)),
    "head_scores.interval": (torch.rand(7),),
    "head_scores.mean_contexts": (MODEL, TOKENS),
    "head_scores.score": (torch.rand(2, 2, 3, 5, 5), KEEP[:, None].expand(2, 5, 5)),
    "language_model.Block.forward": (MODEL.blocks[0], WORDS, PLACES),
    "language_model.LanguageModel.caches": (MODEL,),
    "language_model.LanguageModel.forward": (MODEL, TOKENS),
    "language_model.RotaryAttention.heads_at": (MODEL.blocks[0].attention, WORDS, PLACES),
    "language_model.bits": (MODEL, TOKENS),
    "language_model.next_token_loss": (MODEL, TOKENS),
    "language_model.optimisers": (MODEL,),
    "language_model.rms_norm": (WORDS,),
    "language_model.write": (MODEL, TOKENS, 3),
    "ngrams.NGrams.bits": (NGRAMS, ["abra", "cad"]),
    "ngrams.NGrams.chances": (NGRAMS, "abr", "a"),
    "ngrams.SoftLookup.bits": (LOOKUP, ["abracad"], [0, 1], 6),
    "ngrams.SoftLookup.votes": (LOOKUP, "abra"),
    "positions.check_angles": (Q, *ANGLES),
    "positions.rotary": (PLACES, 4),
    "positions.rotate": (Q, *ANGLES),
    "positions.sinusoidal": (PLACES, 4),
    "relative_positions.relative_scores": (Q, torch.randn(5, 4), torch.zeros(5, 5).long()),
    "relative_positions.relative_shift": (torch.randn(2, 5, 9),),
    "relative_positions.transformer_xl_scores": (
        Q, K, torch.randn(3, 9, 4), torch.randn(3, 1, 4), torch.randn(3, 1, 4)),
    "tasks.draw_dates": (DAYS, 3, torch.Generator()),
    "tasks.to_tokens": (["3 May 1979", "1979"],),
    "training.measured": (MODEL, lambda model: {}),
    "training.new_run": (MODEL, [torch.optim.SGD(MODEL.parameters(), lr=0.1)], 3),
    "training.one_step": (a_run(), lambda model, _: model(TOKENS).sum(), 0.0, 1.0),
    "transformer.DecoderLayer.forward": (
        transformer.DecoderLayer(12, 3, 24), WORDS, WORDS, KEEP[:, None, None]),
    "transformer.EncoderDecoder.decode": (ENCODER_DECODER, TOKENS, WORDS),
    "transformer.EncoderDecoder.embed": (ENCODER_DECODER, TOKENS),
    "transformer.EncoderDecoder.encode": (ENCODER_DECODER, TOKENS),
    "transformer.EncoderDecoder.forward": (ENCODER_DECODER, TOKENS, TOKENS),
    "transformer.EncoderLayer.forward": (
        transformer.EncoderLayer(12, 3, 24), WORDS, KEEP[:, None, None]),
    "transformer.FeedForward.forward": (transformer.FeedForward(12, 24), WORDS),
    "transformer.translate": (ENCODER_DECODER, TOKENS, 1, 3),
}
WRITES = {"training.load", "training.train"}  # into the run, which is what it is for
NOTHING_TO_MODIFY = {
    "bert.renamed", "cache_checks.same_window", "cache_checks.window", "char_model.load",
    "char_model.held_out", "char_model.save", "char_model.sha256", "char_model.train",
    "corpus.encode", "corpus.manual", "corpus.split", "head_scores.after_the_same",
    "head_scores.listening", "head_scores.open_bracket", "head_scores.previous_character",
    "pretrained.find", "pretrained.load_encoder", "pretrained.load_file",
    "pretrained.read", "pretrained.tokenise", "tasks.split_days", "tasks.to_texts",
    "tasks.write_date", "training.linear_decay", "training.save", "transformer.Residual.forward",
}

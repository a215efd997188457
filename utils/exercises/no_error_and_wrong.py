"""The exercises of the page on programs that raise no error and are wrong."""

import torch

from ..attention.departures import attention_with_sink
from ..checks import difference
from ._check import Check, Exercise
from ._judges import recognise


def _decoder_weights(program):
    """Judge decoder_weights(decoder, x, memory, drop) -> (own, cross)."""
    decoder, x, memory, drop = _decoder()
    before = decoder(x, memory, tgt_mask=drop)
    got = program(decoder, x.clone(), memory.clone(), drop.clone())
    if not isinstance(got, list | tuple) or len(got) != 2:
        return "It must return two tensors: the weights of self_attn, then of multihead_attn."
    if any(weights is None for weights in got):
        return ("One of them is None: the layer asks its attention not to return weights. Which "
                "argument says so, and what can change it?")
    if not all(isinstance(weights, torch.Tensor) for weights in got):
        return f"It must return tensors, not {[type(weights).__name__ for weights in got]}."
    own, cross = _decoder_truth(decoder, x, memory, drop)
    if [tuple(side.shape) for side in got] == [(2, 7, 5), (2, 5, 5)] or (
            [tuple(side.shape) for side in got] == [(2, 4, 5, 7), (2, 4, 5, 5)]):
        return "The two are in the wrong order: self_attn first."
    if [side.ndim for side in got] == [3, 3]:
        return ("Those are means over the heads, (b, i, j). Each head is asked for: there is an "
                "argument for that, too.")
    for side, right, name in (got[0], own, "self_attn"), (got[1], cross, "multihead_attn"):
        if side.shape != right.shape:
            return f"{name}: the shape is {tuple(side.shape)}, not {tuple(right.shape)}."
    message = _known_weights(got, decoder, x, memory, drop, own, cross)
    if message:
        return message
    if any(module._forward_hooks or module._forward_pre_hooks for module in decoder.modules()):
        return ("The weights are right, but hooks are left on the layer: each later call records, "
                "too. Keep what register_… returns, and call its remove().")
    if difference(decoder(x, memory, tgt_mask=drop), before) > 1e-9:
        return "The weights are right, but afterwards the layer has other outputs than before."
    return ""


def _decoder():
    """Return a decoder layer in evaluation, its inputs and a causal mask, True = drop; float64."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        decoder = torch.nn.TransformerDecoderLayer(16, 4, 32, dropout=0.3, batch_first=True)
        x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    return (decoder.double().eval(), x.double(), memory.double(),
            torch.ones(5, 5, dtype=torch.bool).triu(1))


def _decoder_truth(decoder, x, memory, drop):
    """Return the right weights of both attentions, (b, h, i, j) each."""
    every = {"need_weights": True, "average_attn_weights": False}
    context, own = decoder.self_attn(x, x, x, attn_mask=drop, **every)
    queries = decoder.norm1(x + context)
    return own, decoder.multihead_attn(queries, memory, memory, **every)[1]


def _known_weights(got, decoder, x, memory, drop, own, cross):
    """Return "" for the right weights, else what is wrong with them."""
    every = {"need_weights": True, "average_attn_weights": False}
    unmasked = decoder.self_attn(x, x, x, **every)[1]
    direct = decoder.multihead_attn(x, memory, memory, **every)[1]
    first = recognise(got[0].detach(), [(own, ""), (
        unmasked, "self_attn: the weights are those without the mask: pass `drop` as tgt_mask.")])
    second = recognise(got[1].detach(), [(cross, ""), (
        direct, "multihead_attn: its queries are not x. They have been through self_attn, the "
                "residual sum and norm1, so record the call instead of repeating it.")])
    for message, name in (first, "self_attn"), (second, "multihead_attn"):
        if message is None:
            return f"{name}: those are not the weights that it has in this call."
        if message:
            return message
    return ""


def _with_sink(program):
    """Judge with_sink(out, total, sink)."""
    generator = torch.Generator().manual_seed(7)
    q, k, v = (torch.randn(2, 3, n, 4, generator=generator).double() for n in (5, 7, 7))
    sink = torch.tensor([-1.0, 0.5, 2.0]).double()
    for scale in 1, 300:
        scores = scale * q @ k.mT / 2
        out, total = scores.softmax(dim=-1) @ v, scores.logsumexp(dim=-1, keepdim=True)
        want, _ = attention_with_sink(scale * q, k, v, sink)
        got = program(out.clone(), total.clone(), sink.clone())
        if not isinstance(got, torch.Tensor) or got.shape != want.shape:
            shape = f"shape {tuple(got.shape)}" if hasattr(got, "shape") else type(got).__name__
            return f"It must return a tensor like out, {tuple(want.shape)}, not {shape}."
        if scale > 1 and not got.isfinite().all():
            return (f"It is right for small scores, but not finite where total is "
                    f"{total.max():.0f}: exp overflows. Write the share with a difference.")
        column = sink[:, None, None]
        message = recognise(got, [
            (want, ""), (out, "That is the output without the sink."),
            (out * torch.sigmoid(column - total),
             "You keep the share that the sink takes; the keys keep the rest."),
            (out * torch.sigmoid(total + column), "Subtract the sink, don't add it: which of the "
             "two must be large for the keys to keep nearly everything?"),
            (out * torch.sigmoid(total), "Your sink is 0 in every head."),
            (out - torch.sigmoid(column - total), "The sink has no value, so it adds nothing to "
             "the output. What does it do to the weights of the keys?")])
        if message is None:
            message = (f"With scores scaled by {scale}, the output differs by up to "
                       f"{difference(got, want):.2g}. How much of the weight do the keys keep?")
        if message:
            return message
    return ""


check = Check({
    "decoder_weights": Exercise(_decoder_weights, (
        "`self_attn` and `multihead_attn` are nn.MultiheadAttention. So the two hooks of the "
        "encoder's answer fit both.",
        "A hook that is registered with with_kwargs=True gets (module, args, options), and returns "
        "args and options.",
        "register_forward_hook and register_forward_pre_hook return a handle. Call handle.remove() "
        "when you have what you need."),
        "A hook reads what really happens in a call, with the mask and the queries of that call."),
    "with_sink": Exercise(_with_sink, (
        "The weights of all keys together are exp(total) / (exp(total) + exp(sink)).",
        "That is a sigmoid. Of which difference?",
        "sink is (h,), and total is (b, h, i, 1): write sink[:, None, None]."),
        "So any kernel that returns the logsumexp supports sinks, and no key has to be appended."),
})

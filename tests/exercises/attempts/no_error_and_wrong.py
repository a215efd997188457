"""Attempts at the exercises on programs that raise no error and are wrong."""

import torch

EVERY = {"need_weights": True, "average_attn_weights": False}


def hooked(decoder, x, memory, drop, options=EVERY, remove=True, mask=True):
    """Record both attentions in one call."""
    found, handles = [], []
    for attention in decoder.self_attn, decoder.multihead_attn:
        if options is not None:
            handles.append(attention.register_forward_pre_hook(
                lambda module, args, given: (args, {**given, **options}), with_kwargs=True))
        handles.append(attention.register_forward_hook(
            lambda module, args, out: found.append(out[1])))
    decoder(x, memory, tgt_mask=drop if mask else None)
    for handle in handles if remove else ():
        handle.remove()
    return found


def wrapped(decoder, x, memory, drop):
    """Replace forward for one call."""
    found = {}
    for name in "self_attn", "multihead_attn":
        attention = getattr(decoder, name)

        def forward(*args, _name=name, _old=attention.forward, **options):
            out, found[_name] = _old(*args, **{**options, **EVERY})
            return out, None

        attention.forward = forward
    decoder(x, memory, tgt_mask=drop)
    for attention in decoder.self_attn, decoder.multihead_attn:
        del attention.forward
    return found["self_attn"], found["multihead_attn"]


def by_hand(decoder, x, memory, drop):
    context, own = decoder.self_attn(x, x, x, attn_mask=drop, **EVERY)
    queries = decoder.norm1(x + decoder.dropout1(context))
    return own, decoder.multihead_attn(queries, memory, memory, **EVERY)[1]


def from_x(decoder, x, memory, drop):
    return (decoder.self_attn(x, x, x, attn_mask=drop, **EVERY)[1],
            decoder.multihead_attn(x, memory, memory, **EVERY)[1])


def trains(decoder, x, memory, drop):
    found = hooked(decoder, x, memory, drop)
    with torch.no_grad():
        decoder.linear1.weight.mul_(2)
    return found


def with_sink(out, total, sink):
    return out * torch.sigmoid(total - sink[:, None, None])


def by_logaddexp(out, total, sink):
    column = sink[:, None, None]
    return out * (total - torch.logaddexp(total, column)).exp()


def by_exp(out, total, sink):
    column = sink[:, None, None]
    return out * total.exp() / (total.exp() + column.exp())


RIGHT = {"decoder_weights": [hooked, wrapped, by_hand,
                             lambda *given: tuple(hooked(*given))],
         "with_sink": [with_sink, by_logaddexp,
                       lambda out, total, sink: out / (1 + (sink[:, None, None] - total).exp())]}

WRONG = {
    "decoder_weights": [
        (lambda *given: hooked(*given, options=None), "Which argument says so"),
        (lambda *given: hooked(*given, options={"need_weights": True}), "means over the heads"),
        (lambda *given: hooked(*given)[::-1], "wrong order"),
        (lambda *given: hooked(*given)[0], "two tensors"),
        (lambda *given: hooked(*given, remove=False), "hooks are left on the layer"),
        (lambda *given: hooked(*given, mask=False), "without the mask"),
        (from_x, "its queries are not x"),
        (lambda *given: [side.mT.contiguous() if n else side
                         for n, side in enumerate(hooked(*given))], "the shape is (2, 4, 7, 5)"),
        (lambda *given: [hooked(*given)[0].flip(1), hooked(*given)[1]], "self_attn: those are not"),
        (lambda *given: [hooked(*given)[0], hooked(*given)[1].flip(1)],
         "multihead_attn: those are not"),
        (trains, "other outputs than before"),
        (lambda *given: ["own", "cross"], "must return tensors"),
    ],
    "with_sink": [
        (lambda out, total, sink: out, "without the sink"),
        (lambda out, total, sink: out * torch.sigmoid(sink[:, None, None] - total),
         "the share that the sink takes"),
        (lambda out, total, sink: out * torch.sigmoid(sink[:, None, None] + total),
         "Subtract the sink"),
        (lambda out, total, sink: out * torch.sigmoid(total), "0 in every head"),
        (lambda out, total, sink: out - torch.sigmoid(sink[:, None, None] - total),
         "adds nothing to the output"),
        (by_exp, "exp overflows"),
        (lambda out, total, sink: torch.sigmoid(total - sink[:, None, None]), "not shape"),
        (lambda out, total, sink: out * 0.5, "How much of the weight"),
        (lambda out, total, sink: out * torch.sigmoid(total - sink), "raises RuntimeError"),
    ]}

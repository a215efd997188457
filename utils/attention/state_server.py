"""A state of fixed size in a server: snapshots, shared prefixes and rejected drafts.

A cache of keys can be cut to any length. A state cannot: who wants to return to an earlier point
must have stored the state there, or computes it again from the last one that was stored.
"""

import torch

from ..checks import state as state_checks
from .state import recurrent, without_padding


def every_state(q, k, v, log_decay=None, beta=None, state=None):
    """Return (context, states), with the state before each token and that after the last.

    As ``recurrent``, but states is (…, i + 1, d, d_v): element n is the state after n of the
    tokens. Arguments and errors are those of ``recurrent``.
    """
    log_decay, state = state_checks.inputs(q, k, v, log_decay, beta, state)
    contexts, states = [], [state]
    for i in range(k.shape[-2]):
        part = slice(i, i + 1)
        context, state = recurrent(
            q[..., part, :], k[..., part, :], v[..., part, :], log_decay[..., part],
            None if beta is None else beta[..., part], state)
        contexts.append(context)
        states.append(state)
    return torch.cat(contexts, dim=-2), torch.stack(states, dim=-3)


def accepted_state(states, accepted):
    """Return of each request the state after its accepted tokens.

    (b, h, i + 1, d, d_v), (b) -> (b, h, d, d_v). ``states`` is that of ``every_state``;
    ``accepted`` holds integers from 0 to i. Raises ValueError or TypeError for what does not fit.
    """
    state_checks.accepted(accepted, states, 5, 2, 1)
    return states[torch.arange(len(states), device=states.device), :, accepted]


def recomputed_state(k, v, log_decay, beta, state, accepted):
    """Return of each request the state after its accepted tokens, from the state before them.

    (b, h, i, d), (b, h, i, d_v), (b, h, i), (b, h, i) or None, (b, h, d, d_v), (b)
    -> (b, h, d, d_v). Rejected tokens count as padding. Raises ValueError or TypeError for what
    does not fit.
    """
    state_checks.accepted(accepted, k, 4, 2, 0)
    real = torch.arange(k.shape[2], device=k.device) < accepted[:, None]  # (b, i)
    k, log_decay = without_padding(k, log_decay, real)
    return recurrent(k, k, v, log_decay, beta, state)[1]


def accepted_window(window, x, accepted):
    """Return of each request the last inputs of the short convolution, after its accepted tokens.

    (b, w, c), (b, i, c), (b) -> (b, w, c). ``window`` holds the w inputs before the drafted tokens,
    ``x`` those of the drafted tokens. Raises ValueError or TypeError for what does not fit.
    """
    state_checks.window(window, x)
    state_checks.accepted(accepted, x, 3, 1, 0)
    places = accepted[:, None] + torch.arange(window.shape[1], device=x.device)  # (b, w)
    inputs = torch.cat((window, x), dim=1)
    return inputs.gather(1, places[..., None].expand(-1, -1, x.shape[2]))

"""What `scripts/gpu.py` measures: attention by PyTorch's kernels, in decoding and with a latent.

A case is (part, program, case, needs a GPU, function that returns its ``Work``). Nothing is
allocated before that function is called. The module is long because each part makes its own inputs.
"""

import contextlib
import importlib.util
import itertools
import json
import math
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention as sdpa

from utils import setup
from utils.attention.grouped import grouped_attention

BACKENDS = {"default": None, "flash": SDPBackend.FLASH_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "math": SDPBackend.MATH}
ON_CPU = ("default", "flash", "math")  # the backends that PyTorch has for CPUs
HOW = ("no mask", "bool mask", "is_causal", "enable_gqa", "d_v ≠ d")
PAGE = setup.COURSE / "chapters/5_fast_and_large/flash.ipynb"


class Work(NamedTuple):
    """A program that is ready to run, and what it must return for the first example.

    ``inputs`` are those whose gradients are measured, () for none. ``want()`` returns the output,
    and the gradients after it, in float64. ``moved`` is the number of bytes of the cache that one
    call reads, 0 where there is none. ``why`` says what of the case is not measured.
    """

    call: callable
    inputs: tuple
    want: callable
    grad_out: torch.Tensor | None = None
    moved: int = 0
    why: str = ""


def expected(q, k, v, keep=None, grad_out=None):
    """Return [out, *gradients] of the first example in float64, one head at a time.

    (b, h, i, d), (b, h_kv, j, d), (b, h_kv, j, d_v) -> (1, h, i, d_v), and as the inputs.
    """
    sides = [x[:1].detach().double().requires_grad_(grad_out is not None) for x in (q, k, v)]
    group, out = q.shape[1] // k.shape[1], []
    for h in range(q.shape[1]):
        one_q, one_k, one_v = sides[0][:, h], sides[1][:, h // group], sides[2][:, h // group]
        scores = one_q @ one_k.mT / math.sqrt(q.shape[-1])
        if keep is not None:
            scores = scores.masked_fill(~keep, -math.inf)
        context = scores.softmax(dim=-1) @ one_v
        if grad_out is not None:
            context.backward(grad_out[:1, h].double())
        out.append(context.detach())
    return [torch.stack(out, dim=1), *(side.grad for side in sides if grad_out is not None)]


def causal(n, device, window=None):
    """Return keep (i, j), bool: the causal mask, of the last ``window`` keys if that is given."""
    keep = torch.ones(n, n, dtype=torch.bool, device=device).tril()
    return keep if window is None else keep.triu(1 - window)


def with_gradients(call, q, k, v, keep):
    """Return the Work of ``call(q, k, v)`` in both passes; ``keep`` is what its mask means."""
    inputs = tuple(x.requires_grad_() for x in (q, k, v))
    grad_out = torch.randn(*q.shape[:3], v.shape[3], device=q.device, dtype=q.dtype)
    return Work(partial(call, *inputs), inputs, partial(expected, q, k, v, keep, grad_out),
                grad_out)


def by_backend(backend, q, k, v, **how):
    """Return SDPA of this backend alone, or of PyTorch's own choice for None."""
    with contextlib.nullcontext() if backend is None else sdpa_kernel(backend):
        return sdpa(q, k, v, **how)


def sdpa_work(backend, how, size, device, dtype):
    """Return the Work of one backend with one kind of arguments."""
    b, h, n, d = (size[key] for key in ("batch", "heads", "n", "d"))
    kv_heads = size["kv_heads"] if how == "enable_gqa" else h
    new = partial(torch.randn, device=device, dtype=dtype)
    q, k = new(b, h, n, d), new(b, kv_heads, n, d)
    v = new(b, kv_heads, n, size["d_v"] if how == "d_v ≠ d" else d)
    keep = causal(n, device) if how in ("bool mask", "is_causal") else None
    arguments = {"bool mask": {"attn_mask": keep}, "is_causal": {"is_causal": True},
                 "enable_gqa": {"enable_gqa": True}}.get(how, {})
    return with_gradients(partial(by_backend, backend, **arguments), q, k, v, keep)


def low_scores(backend, n, masked, size, device, dtype):
    """Return the Work of SDPA with scores near -120, whose exponentials float32 cannot hold.

    As in https://github.com/pytorch/pytorch/issues/196678, where cuDNN's backward pass returned NaN
    with an explicit mask if n % 128 was 64.
    """
    d = size["d"]
    q, k, v = torch.randn(3, 1, size["heads"], n, d, device=device, dtype=dtype)
    q, k = q / 10, k / 10
    q[..., 0], k[..., 0] = 1, -120 * math.sqrt(d)
    keep = causal(n, device)
    how = {"attn_mask": keep} if masked else {"is_causal": True}
    return with_gradients(partial(by_backend, backend, **how), q, k, v, keep)


def flex_work(window, size, device, dtype):
    """Return the Work of FlexAttention, compiled on a GPU; the mask is causal, or a window."""
    def allowed(b, h, i, j):
        return i >= j if window is None else (i >= j) & (i - j < window)

    n = size["n"]
    blocks = create_block_mask(allowed, B=None, H=None, Q_LEN=n, KV_LEN=n, device=device)
    keep = causal(n, device, window)
    q, k, v = (torch.randn(size["batch"], size["heads"], n, size["d"], device=device, dtype=dtype)
               for _ in "qkv")
    if device != "cuda":
        return Work(partial(flex_attention, q, k, v, block_mask=blocks), (),
                    partial(expected, q, k, v, keep),
                    why="on a CPU: not compiled, and without a backward pass")
    run = torch.compile(flex_attention, dynamic=False)
    return with_gradients(partial(run, block_mask=blocks), q, k, v, keep)


def decode_work(program, kv_heads, size, device, dtype):
    """Return the Work of one query per example that reads a long cache."""
    b, h, n, d = (size[key] for key in ("batch", "heads", "n", "d"))
    q = torch.randn(b, h, 1, d, device=device, dtype=dtype)
    k, v = (torch.randn(b, kv_heads, n, d, device=device, dtype=dtype) for _ in "kv")
    call = {"SDPA, enable_gqa": partial(sdpa, enable_gqa=True),
            "grouped_attention": grouped_attention}[program]
    return Work(partial(call, q, k, v), (), partial(expected, q, k, v),
                moved=k.nbytes + v.nbytes)


def explicit(q_nope, q_rope, cache, W_uk, W_uv, is_causal):
    """Return the context (b, h, i, d_v) of latent attention; each head's keys and values are made.

    ``cache`` (b, j, rank + d_rope) holds the latent and the rotated key, which all heads share.
    """
    q, k, v = explicit_sides(q_nope, q_rope, cache, W_uk, W_uv)
    return sdpa(q, k, v, is_causal=is_causal)


def explicit_sides(q_nope, q_rope, cache, W_uk, W_uv):
    """Return q, k and v of all heads, (b, h, i or j, d_nope + d_rope or d_v)."""
    latent, rotated = cache.split([W_uk.shape[-1], q_rope.shape[-1]], dim=-1)
    k = torch.einsum("bjr,hdr->bhjd", latent, W_uk)
    v = torch.einsum("bjr,hdr->bhjd", latent, W_uv)
    k = torch.cat([k, rotated[:, None].expand(-1, k.shape[1], -1, -1)], dim=-1)
    return torch.cat([q_nope, q_rope], dim=-1), k, v


def absorbed(q_nope, q_rope, cache, W_uk, W_uv, is_causal):
    """Return the context (b, h, i, d_v); W_uk goes into the queries, and all heads read the cache.

    A single query per head needs no mask, so the heads become queries of one head.
    """
    rank, (b, h, n_q, _) = W_uk.shape[-1], q_nope.shape
    q = torch.cat([torch.einsum("bhid,hdr->bhir", q_nope, W_uk), q_rope], dim=-1)
    cache = cache[:, None]
    if n_q == 1:
        q = q.reshape(b, 1, h, -1)
    else:
        cache = cache.expand(-1, h, -1, -1)
    context = sdpa(q, cache, cache[..., :rank], is_causal=is_causal,
                   scale=1 / math.sqrt(q_nope.shape[-1] + q_rope.shape[-1]))
    return torch.einsum("bhir,hdr->bhid", context.reshape(b, h, n_q, rank), W_uv)


def latent_work(program, decoding, size, device, dtype):
    """Return the Work of latent attention: one query with a cache, or a whole prompt."""
    b, n = (size["batch"], size["cached"]) if decoding else (1, size["prompt"])
    h, n_q = size["heads"], 1 if decoding else n
    new = partial(torch.randn, device=device, dtype=dtype)
    q_nope, q_rope = new(b, h, n_q, size["nope"]), new(b, h, n_q, size["rope"])
    cache = new(b, n, size["rank"] + size["rope"])
    W_uk, W_uv = (new(h, size[key], size["rank"]) / math.sqrt(size["rank"])
                  for key in ("nope", "d_v"))
    inputs = q_nope, q_rope, cache, W_uk, W_uv

    def want():
        first = [x[:1].double() for x in inputs[:3]] + [W_uk.double(), W_uv.double()]
        return expected(*explicit_sides(*first), None if decoding else causal(n, device))

    return Work(partial(program, *inputs, is_causal=not decoding), (), want,
                moved=cache.nbytes if decoding else 0)


def page_kernel(folder):
    """Return the module with the Triton kernel of chapter `flash`, read from its page.

    Triton reads the source of a kernel from a file, so the page's cell is written into ``folder``.
    The page turns Triton's interpreter on; here the kernel is compiled.
    """
    cells = ["".join(cell["source"]) for cell in json.loads(PAGE.read_text("utf-8"))["cells"]]
    kernel, = (source for source in cells if "@triton.jit" in source)
    forward, = (source for source in cells if source.startswith("def triton_forward"))
    head, _, kernel = kernel.partition("\n")
    if "frameworks.triton()" not in head:
        raise ValueError(f"the kernel's cell must begin with frameworks.triton(), got {head}")
    path = Path(folder) / "kernel_of_the_page.py"
    path.write_text("import math\nimport triton\nimport triton.language as tl\n" + kernel + "\n\n\n"
                    + forward.partition("\n\n\n")[0] + "\n", "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def float32_work(program, size, device, dtype):
    """Return the Work of a causal forward pass in float32: the page's kernel, or SDPA."""
    shape = size["batch"], size["heads"], size["n"], size["kernel_d"]
    q, k, v = (torch.randn(shape, device=device) for _ in "qkv")
    call, why = partial(sdpa, q, k, v, is_causal=True), ""
    if program == "the page's kernel":
        why = "it has no backward pass"
        with tempfile.TemporaryDirectory() as folder:
            module = page_kernel(folder)
            call = partial(module.triton_forward, q, k, v, causal=True, tile=size["tile"])
            call()  # compiled while its source is there
    return Work(call, (), partial(expected, q, k, v, causal(size["n"], device)), why=why)


def cases(sizes):
    """Return the list of all cases: (part, program, case, needs a GPU, make(device, dtype))."""
    found = [("SDPA", name, how, name not in ON_CPU, partial(sdpa_work, backend, how,
              sizes["sdpa"])) for how in HOW for name, backend in BACKENDS.items()]
    found += [("SDPA, scores near -120", name, f"n = {n}, {'bool mask' if masked else 'is_causal'}",
               name not in ON_CPU, partial(low_scores, backend, n, masked, sizes["sdpa"]))
              for n, masked, (name, backend) in itertools.product(
                  sizes["low_scores"], (True, False), BACKENDS.items())]
    found += [("decoding", program, f"{heads} KV heads of {sizes['decode']['heads']}", False,
               partial(decode_work, program, heads, sizes["decode"]))
              for heads in sizes["decode"]["kv_heads"]
              for program in ("SDPA, enable_gqa", "grouped_attention")]
    found += [("latent attention", program.__name__, "decoding" if decoding else "prompt", False,
               partial(latent_work, program, decoding, sizes["latent"]))
              for decoding in (True, False) for program in (absorbed, explicit)]
    found += [("FlexAttention", "compiled", "causal" if window is None else f"window of {window}",
               False, partial(flex_work, window, sizes["sdpa"]))
              for window in (None, sizes["window"])]
    return found + [("float32, causal", name, "forward only", gpu, partial(
        float32_work, name, sizes["sdpa"])) for name, gpu in (("SDPA", False),
                                                             ("the page's kernel", True))]

"""Probes as students write them, from the best to the idle, for the tests of grading."""

HEAD = '''
import numpy as np

STUDENT = "Ada Lovelace"
PROGRAM = 12345678
LEVEL = "kernel"
DIAGNOSIS = ""


'''
ATTENTION = HEAD + '''
def attention(q, k, v, keep):
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = scores if keep is None else np.where(keep, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def far(program, q, k, v, keep):
    return np.abs(program(q, k, v, keep) - attention(q, k, v, keep)).max() > 1e-3


def data(heads=6):
    rng = np.random.default_rng(0)
    keep = rng.random((2, 6, 5, 7)) < 0.5
    keep[..., 0] = True
    return *(rng.standard_normal(shape) for shape in (
        (2, 6, 5, 4), (2, heads, 7, 4), (2, heads, 7, 3))), keep


'''
THOROUGH = ATTENTION + '''
def probe(program):
    print("asking", flush=True)
    q, k, v, keep = data(heads=2)
    return bool(far(program, q, k, v, None) or far(program, q, k, v, keep)
                or far(program, -30 * abs(q), 5 * abs(k), v, keep))
'''
UNMASKED = ATTENTION + '''
def probe(program):
    return far(program, *data()[:3], None)
'''
STRICT = ATTENTION + '''
def probe(program):
    q, k, v, keep = data()
    return bool(np.abs(program(q, k, v, keep) - attention(q, k, v, keep)).max() > 1e-10)
'''
ROW_SUMS = HEAD + '''
def probe(program):
    q, k = np.random.default_rng(0).standard_normal((2, 2, 3, 7, 4))
    return not np.allclose(program(q, k, np.ones((2, 3, 7, 6)), None), 1)
'''
ALL = HEAD + '''
def probe(program):
    return True
'''
NONE = HEAD + '''
def probe(program):
    return False
'''
SHAPE = HEAD + '''
def probe(program):
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 3, 7, 4))
    return program(q, k, v, None).shape != q.shape
'''
UNTOUCHED = HEAD + '''
def probe(program):
    raise NotImplementedError("write me")
'''
SILENT = HEAD + '''
def probe(program):
    program(None)
'''
HANGS = HEAD + '''
def probe(program):
    while True:
        pass
'''
LEAVES = HEAD + '''
import os


def probe(program):
    os._exit(0)
'''
EXITS = HEAD + '''
raise SystemExit("done")
'''
BORROWS = HEAD + '''
def probe(program):
    from utils import doctor
    return doctor.examine(program).verdict == "sick"
'''
LOOKS = HEAD + '''
import gc
import sys


def probe(program):
    held = [x for x in gc.get_objects() if type(x).__module__.startswith("utils")]
    names = [name for name in sys.modules if name.startswith("utils")]
    return bool(held or names or vars(program).keys() != {"_calls", "_results"})
'''
COUNTS = HEAD + '''
asked = []


def probe(program):
    asked.append(program)
    return len(asked) < 15
'''
LAYER = HEAD.replace("kernel", "layer") + '''
def attention(x, memory, W, n_heads, keep):
    def split(x, letter):
        x = x @ W["W_" + letter] + W["b_" + letter]
        return x.reshape(*x.shape[:2], n_heads, -1).swapaxes(1, 2)

    q, k, v = split(x, "q"), split(memory, "k"), split(memory, "v")
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = scores if keep is None else np.where(keep, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    context = (weights / weights.sum(axis=-1, keepdims=True) @ v).swapaxes(1, 2)
    return context.reshape(x.shape) @ W["W_o"] + W["b_o"]


def probe(program):
    rng = np.random.default_rng(0)
    W = {"W_" + n: rng.standard_normal((12, 12)) / 3 for n in "qkvo"}
    W |= {"b_" + n: rng.standard_normal(12) for n in "qkvo"}
    x, memory = rng.standard_normal((3, 5, 12)), rng.standard_normal((3, 7, 12))
    keep = (np.arange(7) < np.array([6, 3, 5])[:, None])[:, None, None]
    args = x, memory, W, 3, keep
    return bool(np.abs(program(*args) - attention(*args)).max() > 1e-3)
'''

"""What the arguments of a program mean, read from their names."""

import inspect
import re
from typing import NamedTuple

from .. import _subject

# Names of arguments, without underscores and capitals.
OWNERS = ("d|n|dim|num|feature|hidden|hid|embed|embedding|embd|emb|model|input|in|output|out|query|"
          "key|value|context|latent|attention|attn|inner|q|k|v")
MEASURES = ("model|dims?|dimensions?|size|hiddens?|hid|units|embd?|embed|feats?|features|channels?|"
            "ch|planes|width|in|state|out")
WIDTH = re.compile(rf"({OWNERS})({MEASURES})s?(in|out|inner)?|c[qkv]|(input)?d(input|output)?|dm|"
                   r"dim(attn|attention|inner)|dims?|dimensions?|units|e|emb|embed|width|channels?|"
                   r"features|c|ch|nc|nf|planes|filters")
HEADS = re.compile(r"(n|num|nb|no|number|total)?(of)?(attention|attn|att|self|query|q|local)*(of)?"
                   r"heads?(num|count)?|h|nh")
HEAD_WIDTH = re.compile(r"d[qkv]?head|(head|perhead)(dim|dimension|size|width)|dim(per)?heads?|"
                        r"(attention)?d[kqv]|(dim|size)[kqv]|dkv|headd|chidden|"
                        r"(attn|attention)headsize|sizeperhead")
KV_HEADS = re.compile(r"(n|num|nb|no)?(of)?(kv|keyvalue|querygroup|kvgroup|qgroup)s?"
                      r"(heads?|groups?)?(num|count)?|(n|num)?groups?|nkv|nkvh|hkv")
INDEX = re.compile(r"(layer|block)?(idx|index|id|i|no|number)")
LENGTH = re.compile(r".*(max|seq|ctx|context|block|sequence|position).*(len|length|size|ctx|"
                    r"positions|embeddings)|nctx|maxlen|blocksize|seqlen|nseq|"
                    r"(n|num|max)positions?|maxt|tmax|maxtokens|ntokens")
CONFIG = re.compile(r"(.*config|configuration|cfg|conf|hparams|params|args|opt|options)")
RATE = re.compile(r"(?!use|is|no|.*bias)(.*drop.*|p)")
OFF = re.compile(r"(?!.*bias)(.*drop.*|p|.*flash.*|use.*|is.*|.*debug.*|.*verbose.*)")

INNER = re.compile(r"(inner|self|base|core|full|scaled|dotproduct)*(attention|attn)(fn|layer)?")
X = re.compile(r"(xs?|inputs?|inp|inx|embeddings?|embs?|tokens|hidden|hiddenstates?|states|seq|"
               r"sequence|src|tgt|target|feat|features|data|embed|xq|xinput)[0-9]*")
SIDES = {side: re.compile(rf"(x|in|input|decoder|encoder|hidden)?({words})"
                          "(states|input|in|s|x|layer)?") for side, words in (
                              ("q", "q|query|queries"), ("k", "k|keys?"), ("v", "v|values?"))}
EITHER = re.compile(r"y|other|cross")    # of these, x may be the one that gives keys and values
MEMORY = re.compile(r"(memory|mem|context|ctx|cond|kv|kvs|kvx|y|enc|encout|enchidden|source|other|"
                    r"cross|encoder(output|outputs|out|hiddenstates|hidden|states|x)?|keyvaluestates|"
                    r"xkv|inputkv|memories)")
MASK = re.compile(r"(?!.*(return|past))(.*masks?|keep|m|bias|attnbias|attentionbias|allowed|"
                  r"visible|valid|(is)?pad(ding)?|adj|adjacency(matrix)?)")
TURNS = re.compile(r"freqs(cis|complex|cos|sin)?|rotary(emb|cos|sin)?|rope|cos|sin|"
                   r"positionembeddings|ropeemb|"
                   r"(token|input)?pos(ition)?s?(ids?)?")
PADDING = re.compile(rf"(?=.*pad)({MASK.pattern})")
LENGTHS = re.compile(r"(valid|seq|sequence|src|input)?(lens?|lengths?)")
HEAD_SCALE = re.compile(r"(d|dk|dhead|headdim|depth|dimk|dimension)")   # of a kernel: d of q
TEMPERATURE = re.compile(r"(temperature|temp|scalefactor|sqrtdk)")      # of a kernel: √d
CONSTANTS = {"ropebase": 1e4, "ropetheta": 1e4, "theta": 1e4, "base": 1e4, "eps": 1e-5,
             "epsilon": 1e-5, "layernormeps": 1e-5, "vocabsize": 32, "device": "cpu",
             "batchfirst": True, "bias": True, "qkvbias": True, "attentionbias": True,
             "outbias": True}
FLAG = re.compile(r"(is|use)?causal(mask|attention)?|masked|autoregressive")
START = re.compile(r"(start|pos|position)?(start|offset)(pos|position|idx|index)?|startpos(ition)?")
PACKED = re.compile(r"(qkv|kqv|packed(qkv)?|mixedqkv)")
METHODS = ("forward", "call", "__call__", "apply", "attend", "attention", "compute", "run")
LETTER = r"[qkvo]|query|key|value|out|output"
WEIGHT = re.compile(rf"(?:w|weights?|wt|mat|matrix|theta|u)_*(?P<a>{LETTER})"
                    r"(?:_*(?:proj|weights?|w))?"
                    rf"|(?P<b>{LETTER})_*(?:w|weights?|kernel|proj|matrix|mat)", re.IGNORECASE)
BIAS = re.compile(rf"(?:b|bias)_*(?P<a>{LETTER})|(?P<b>{LETTER})_*(?:b|bias)", re.IGNORECASE)
ROOM = 32    # positions for which a class is built that takes a largest length
MASKS = {"keep", "mask", "padding", "lengths"}   # roles
SIDED = {"q", "k", "v", "memory"}


class Word(NamedTuple):
    """Which names of arguments have a role.

    ``optional``: also arguments with a default. ``beside``: only if one of these roles has an
    argument before. ``without``: not if one of them has.
    """

    role: str
    pattern: re.Pattern
    optional: bool = True
    beside: frozenset = frozenset()
    without: frozenset = frozenset()


# What an argument gets: x, q, k, v or memory; a "mask", one of "padding", a "keep" in which True or
# 1 = may attend, or the "lengths" of the examples; "d" or "√d" of a kernel; "turn", positions or
# angles; "off", a flag or a rate; "start", the position of the first token; "n" and "1", the height
# and width of an image of tokens; "none".
ROLES = (
    *(Word(side, pattern, without=frozenset(side)) for side, pattern in SIDES.items()),
    Word("memory", MEMORY, beside=frozenset({"x", *SIDED, *MASKS}), without=frozenset({"memory"})),
    Word("keep", re.compile("keep"), without=frozenset(MASKS)),
    Word("padding", PADDING, without=frozenset(MASKS)),
    Word("mask", MASK, without=frozenset(MASKS)),
    Word("lengths", LENGTHS, without=frozenset(MASKS)),
    Word("none", MASK, optional=False),
    Word("d", HEAD_SCALE, optional=False, beside=frozenset("q")),
    Word("√d", TEMPERATURE, optional=False, beside=frozenset("q")),
    Word("start", START, optional=False, beside=frozenset({"x", "q"})),
    Word("turn", TURNS, optional=False),
    Word("off", re.compile(rf"({OFF.pattern})|{FLAG.pattern}"), optional=False),
    Word("n", re.compile("h|height"), optional=False, beside=frozenset("x")),
    Word("1", re.compile("w|width"), optional=False, beside=frozenset("n")),
    Word("x", X, without=frozenset("xq")),
    Word("memory", X, optional=False, beside=frozenset("xq"), without=frozenset(SIDED - {"q"})))


class Reading(NamedTuple):
    """What the arguments of a call mean.

    ``roles``: ((argument, role), …) of those that always get something. ``masks``: ((argument,
    role), …) of those that may be the mask, the likeliest first; ``needed``: the one without a
    default. ``flags``: arguments that turn a causal mask on. ``absent``: optional arguments that
    get nothing. ``named``: those of ``masks`` that are called so.
    """

    roles: tuple
    masks: tuple = ()
    named: tuple = ()
    needed: str = ""
    flags: tuple = ()
    absent: tuple = ()


class PackedError(_subject.RefusalError):
    """The only array that a program takes is q, k and v in one."""


class UnknownArgumentError(_subject.RefusalError):
    """The name of an argument without a default says nothing; ``argument`` is this name."""

    def __init__(self, words, argument=""):
        super().__init__(words)
        self.argument = argument


def plain(name):
    """Return a name without underscores and capitals."""
    return name.replace("_", "").lower()


def by_name(name, d_model, n_heads):
    """Return the value of a constructor's argument, or None if its name says nothing."""
    name = plain(name)
    kv_heads = 2 if n_heads % 2 == 0 and n_heads > 4 else 1
    for known, value in ((KV_HEADS, kv_heads), (HEADS, n_heads),
                         (HEAD_WIDTH, d_model // n_heads), (INDEX, 0), (LENGTH, ROOM),
                         (TEMPERATURE, d_model ** 0.5 if n_heads == 1 else None),
                         (RATE, 0.1), (OFF, False), (WIDTH, d_model)):
        if known.fullmatch(name):
            return value
    return CONSTANTS.get(name)


def signature(function):
    """Return the inspect.Signature of a function, also of one that ``torch.jit`` has scripted."""
    schema = getattr(function, "schema", None)
    if not hasattr(schema, "arguments"):
        return inspect.signature(function)
    one = inspect.Parameter
    return inspect.Signature([one(made.name, one.POSITIONAL_OR_KEYWORD, default=made.default_value
                                  if made.has_default_value() else one.empty)
                              for made in schema.arguments])


def parameters(function):
    """Return {name: inspect.Parameter} of a function, without *args and **kwargs."""
    return {name: one for name, one in signature(function).parameters.items()
            if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}


def said(name, role):
    """Return in words what an argument with a role gets."""
    if role == "turn":
        which = "".join(f"{one} of the " for one in ("cos", "sin") if plain(name).endswith(one))
        return "positions from 0" if of_positions(name) else f"{which}angles of RoPE"
    return {"off": "0", "start": "0", "none": "None"}.get(role, role)


def of_positions(name):
    """Return whether an argument with the role "turn" gets positions, and not their angles."""
    return "pos" in plain(name) and "emb" not in name


def weight_of(name):
    """Return ("W" or "b", one of q, k, v, o) for a name such as W_q or key_bias, or ("", "")."""
    for kind, pattern in (("W", WEIGHT), ("b", BIAS)):
        found = pattern.fullmatch(name)
        if found:
            return kind, (found["a"] or found["b"])[0].lower()
    return "", ""


def roles_of(function, aside=(), skip=0, guess=False):
    """Return {argument: role} of a function, by ROLES and the names of its arguments.

    ``aside``: arguments of which the caller knows. ``skip``: how many come before. Raises
    UnknownArgumentError for an argument without a default whose name says nothing; with ``guess``,
    its role is "".
    """
    found = {}
    for n, (name, one) in enumerate([*parameters(function).items()][skip:]):
        if name in aside or is_flag(name, one):
            continue
        needed = one.default is one.empty
        role = _role(plain(name), needed, {*found.values()}, n == 0)
        if not role and needed and one.annotation in (bool, "bool"):
            role = "off"
        if role or (needed and guess):
            found[name] = role
        elif needed:
            raise UnknownArgumentError(
                f"is called with {name}, and the doctor knows no value for that", name)
    if not guess and not {"x", "q"} & set(found.values()):
        raise UnknownArgumentError("has no argument that could be x")
    return found


def _role(word, needed, taken, is_first):
    """Return the role of an argument, beside the roles that others have, or ""."""
    if is_first and PACKED.fullmatch(word):
        raise PackedError("takes q, k and v in one array")
    role = next((one.role for one in ROLES if one.pattern.fullmatch(word)
                 and (one.optional or needed) and not one.without & taken
                 and (not one.beside or one.beside & taken)), "")
    return role or ("x" if is_first else "")


def is_flag(name, parameter):
    """Return whether an argument that is True or False by default turns a causal mask on."""
    word = plain(name)
    return isinstance(parameter.default, bool) and bool(
        FLAG.fullmatch(word) or MASK.fullmatch(word))


def method_name(program):
    """Return the name of the method with which the objects of a class are called, or ""."""
    return next((one for one in METHODS if one in dir(program)), "")


def readings(function, aside=()):
    """Yield the Readings of a function, the likeliest first. Raises as ``roles_of`` does.

    One argument may be the list [q, k, v] or [x, memory], as in Keras; a mask that is needed and of
    no kind that is known may be None.
    """
    roles, given = roles_of(function, aside), parameters(function)
    optional = [name for name, one in given.items() if one.default is None and name not in roles]
    named = [pair for pair in roles.items() if pair[1] in MASKS]
    others = tuple(pair for pair in roles.items() if pair not in named)
    needed = next((name for name, _ in named if given[name].default is inspect.Parameter.empty), "")
    named += [(name, "padding" if PADDING.fullmatch(plain(name)) else "mask")
              for name in optional if MASK.fullmatch(plain(name))]
    absent = [name for name in optional if plain(name) != "training"
              and not re.search("return|output|need|scale|drop", name.lower())]
    masks = named + [(name, "mask") for name in absent if name not in dict(named)]
    flags = tuple(name for name, one in given.items() if is_flag(name, one) or (
        roles.get(name) == "off" and FLAG.fullmatch(plain(name))))
    first = Reading(others, tuple(masks), tuple(dict(named)), needed, flags, tuple(absent))
    yield first
    if not SIDED & {role for _, role in others}:
        for several in ("[q, k, v]", "[x, memory]"):
            yield first._replace(roles=tuple((name, several if role == "x" else role)
                                             for name, role in others))
    if needed:
        yield first._replace(roles=(*others, (needed, "none")), masks=(), named=(), needed="")

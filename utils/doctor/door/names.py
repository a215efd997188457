"""What the arguments of a program mean, read from their names."""

import inspect
import re

from .. import _subject

# Names of arguments, without underscores and capitals.
WIDTH = re.compile(r"(d|dims?|units|e|emb|embed|width|channels?|features|c|ch|nc|nf|planes|filters|"
                   r"(d|n|dim|num|hidden|hid|embed|emb|embd|"
                   r"embedding|model|input|in|output|out|query|key|value|context|latent|k|v|q)"
                   r"(model|dims?|size|hiddens?|hid|units|embd?|embed|feats?|features|channels|ch|planes|width|in|"
                   r"state|out))s?(in|out|inner)?|d(in|out|emb|input|output)|inputd|dm|dim(attn|attention|inner)|"
                   r"(attn|attention|inner)dim")
HEADS = re.compile(r"(n|num|nb|no|numberof|numattention|nattention|attention)?(of)?heads?"
                   r"(num|count)?|h|nh")
HEAD_WIDTH = re.compile(r"d[qkv]?head|(head|perhead)(dim|size|width)|dim(per)?heads?|d[kqv]|"
                        r"(dim|size)[kqv]|dkv|headd|attnheadsize|attentionheadsize|sizeperhead")
KV_HEADS = re.compile(r"(n|num|nb|no)?(of)?(kv|keyvalue|querygroup|kvgroup|qgroup)s?"
                      r"(heads?|groups?)?(num|count)?|(n|num)?groups?|nkv|nkvh|hkv")
INDEX = re.compile(r"(layer|block)?(idx|index|id|i|no|number)")
LENGTH = re.compile(r".*(max|seq|ctx|context|block|sequence|position).*(len|length|size|ctx|"
                    r"positions|embeddings)|nctx|maxlen|blocksize|seqlen|nseq|"
                    r"(n|num|max)positions?|maxt|tmax|maxtokens|ntokens")
CONFIG = re.compile(r"(.*config|configuration|cfg|conf|hparams|params|args|opt|options)")
OFF = re.compile(r"(?!.*bias)(.*drop.*|p|.*flash.*|use.*|is.*|.*debug.*|.*verbose.*)")

INNER = re.compile(r"(inner|self|base|core|full|scaled|dotproduct)*(attention|attn)(fn|layer)?")
X = re.compile(r"(xs?|inputs?|inp|inx|embeddings?|embs?|tokens|hidden|hiddenstates?|states|seq|"
               r"sequence|src|tgt|target|feat|features|data|embed|xq|xinput)[0-9]*")
SIDES = {side: re.compile(rf"(x|in|input|decoder|encoder|hidden)?({words})"
                          "(states|input|in|s|x|layer)?") for side, words in (
                              ("q", "q|query|queries"), ("k", "k|keys?"), ("v", "v|values?"))}
MEMORY = re.compile(r"(memory|mem|context|ctx|cond|kv|kvs|y|enc|encout|enchidden|source|other|"
                    r"cross|encoder(output|outputs|out|hiddenstates|hidden|states|x)?|keyvaluestates|"
                    r"xkv|inputkv|memories)")
MASK = re.compile(r"(?!.*(return|past))(.*masks?|keep|m|bias|attnbias|attentionbias|allowed|"
                  r"visible|valid|(is)?pad(ding)?|adj|adjacency(matrix)?)")
TURNS = re.compile(r"freqs(cis|complex)?|rope|rotary(emb)?|cos|sin|positionembeddings|ropeemb|"
                   r"(token|input)?pos(ition)?s?(ids?)?")
PADDING = re.compile(r".*(padding|pad).*")
LENGTHS = re.compile(r"(valid|seq|sequence|src|input)?(lens?|lengths?)")
HEAD_SCALE = re.compile(r"(d|dk|dhead|headdim|depth|dimk|dimension)")   # of a kernel: d of q
TEMPERATURE = re.compile(r"(temperature|temp|scalefactor|sqrtdk)")      # of a kernel: √d
CONSTANTS = {"ropebase": 1e4, "ropetheta": 1e4, "theta": 1e4, "base": 1e4, "eps": 1e-5,
             "epsilon": 1e-5, "layernormeps": 1e-5, "vocabsize": 32, "device": "cpu"}
METHODS = ("forward", "__call__", "call", "apply", "attend", "attention", "compute", "run")
LETTER = r"[qkvo]|query|key|value|out|output"
WEIGHT = re.compile(rf"(?:w|weights?|wt|mat|matrix|theta|u)_*(?P<a>{LETTER})"
                    r"(?:_*(?:proj|weights?|w))?"
                    rf"|(?P<b>{LETTER})_*(?:w|weights?|kernel|proj|matrix|mat)", re.IGNORECASE)
BIAS = re.compile(rf"(?:b|bias)_*(?P<a>{LETTER})|(?P<b>{LETTER})_*(?:b|bias)", re.IGNORECASE)
ROOM = 32    # positions for which a class is built that takes a largest length
MASKS = {"mask", "padding", "lengths"}   # roles


class UnknownArgumentError(_subject.RefusalError):
    """The name of an argument without a default says nothing; ``argument`` is this name."""

    def __init__(self, words, argument=""):
        super().__init__(words)
        self.argument = argument


def plain(name):
    """Return a name without underscores and capitals."""
    return name.replace("_", "").lower()


def groups(n_heads):
    """Return how many heads of k and v a layer with this many heads gets, if it lets one choose."""
    return 2 if n_heads % 2 == 0 and n_heads > 4 else 1


def by_name(name, d_model, n_heads):
    """Return the value of a constructor's argument, or None if its name says nothing."""
    name = plain(name)
    for known, value in ((KV_HEADS, groups(n_heads)), (HEADS, n_heads),
                         (HEAD_WIDTH, d_model // n_heads), (INDEX, 0), (LENGTH, ROOM),
                         (TEMPERATURE, d_model ** 0.5 if n_heads == 1 else None),
                         (OFF, 0.1 if "drop" in name or name == "p" else False), (WIDTH, d_model)):
        if known.fullmatch(name):
            return value
    if name in ("batchfirst", "bias", "qkvbias", "attentionbias", "outbias"):
        return True
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


def letter_of(name, pattern):
    """Return which of q, k, v, o a name such as W_q or key_bias means, or ""."""
    found = pattern.fullmatch(name)
    return (found["a"] or found["b"])[0].lower() if found else ""


def roles_of(function, aside=(), skip=0):
    """Return {argument: "x", "q", "k", "v", "memory", "mask", "padding" …} of a function.

    Other roles are "lengths" of the examples, "d" and "√d" of a kernel, "turn" for a rotation by
    positions, and "none" for a second mask.
    ``aside``: arguments of which the caller knows. ``skip``: how many come before.
    Raises RefusalError for an argument without a default whose name says nothing.
    """
    found = {}
    parameters = list(signature(function).parameters.items())[skip:]
    for n, (name, one) in enumerate(parameters):
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) or name in aside:
            continue
        word = plain(name)
        side = next((side for side, known in SIDES.items() if known.fullmatch(word)), None)
        taken = set(found.values())
        if side and side not in taken:
            found[name] = side
        elif MEMORY.fullmatch(word) and "memory" not in taken and n:
            found[name] = "memory"
        elif MASK.fullmatch(word) and not taken & MASKS:
            found[name] = "padding" if PADDING.fullmatch(word) else "mask"
        elif LENGTHS.fullmatch(word) and not taken & MASKS:
            found[name] = "lengths"
        elif one.default is one.empty and MASK.fullmatch(word):
            found[name] = "none"
        elif one.default is one.empty and "q" in taken and HEAD_SCALE.fullmatch(word):
            found[name] = "d"
        elif one.default is one.empty and "q" in taken and TEMPERATURE.fullmatch(word):
            found[name] = "√d"
        elif one.default is one.empty and TURNS.fullmatch(word):
            found[name] = "turn"
        elif one.default is one.empty and OFF.fullmatch(word):
            found[name] = "off"
        elif (X.fullmatch(word) or n == 0) and "x" not in taken and "q" not in taken:
            found[name] = "x"
        elif one.default is one.empty and X.fullmatch(word) and "x" in taken and (
                "memory" not in taken):
            found[name] = "memory"
        elif one.default is one.empty:
            raise UnknownArgumentError(f"is called with {name}, of which the doctor knows nothing")
    if not {"x", "q"} & set(found.values()):
        raise UnknownArgumentError("has no argument that could be x")
    return found


def left_out(function, roles):
    """Return the optional arguments without a role that may be arrays or objects, as a cache."""
    return [name for name, one in signature(function).parameters.items()
            if one.default is None and name not in roles and plain(name) != "training"
            and not re.search("return|output|need|scale|drop", name.lower())]


def placed(roles, x, memory, mask):
    """Return {argument: array} for a call; a mask of None is left out.

    ``memory`` is an array, or the pair of k and v.
    """
    k, v = memory if isinstance(memory, tuple) else (memory, memory)
    of = {"x": x, "q": x, "k": k, "v": v, "memory": memory, "list": [x, k, v], "d": x.shape[-1],
          "√d": x.shape[-1] ** 0.5, "off": 0, "none": None, "turn": None} | dict.fromkeys(MASKS,
                                                                                         mask)
    return {name: of[role] for name, role in roles.items()
            if of[role] is not None or role == "none"}


def first(result, shape):
    """Return the first array of a shape in a result: an array, a tuple of any length or a dict.

    Raises RefusalError for a result without an array.
    """
    if hasattr(result, "shape"):
        return result
    items = result.values() if hasattr(result, "values") else result
    arrays = [item for item in items if hasattr(item, "shape")] if (
        isinstance(result, tuple | list) or hasattr(result, "values")) else []
    if not arrays:
        raise _subject.RefusalError(f"returns {_subject.kind(result)}; expected an array")
    return next((item for item in arrays if tuple(item.shape) == tuple(shape)), arrays[0])


def looks_back(end, start):
    """Return whether a program hides later tokens, or means to.

    ``end``, ``start``: which outputs change with the last token, and with the first one. It may
    look one token too far, or the wrong way round; and where it may look at none, as the first
    output of a mask that is off by one, it may look at all.
    """
    ahead = bool(end[0] and not start[1:-1].any())
    return ahead or not end[1:-1].any() or bool(start[-1] and not end[1:-2].any())


def is_mask(role):
    """Return whether a role is that of a mask."""
    return role in MASKS

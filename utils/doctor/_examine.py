"""The doctor: what is wrong with an attention program, by name.

    print(doctor.examine(my_attention))

A program is asked small random questions; its answers are compared with ``utils.reference`` and,
where they differ, with ``utils.doctor.faulty`` under every fault, pair and triple of faults.
"""

from utils.doctor import _subject, _verdict, modules
from utils.doctor._exam import EMPTY, Exam, settle
from utils.doctor._report import Report
from utils.doctor.levels import (
    decoding as decoding_level,
    kernel as kernel_level,
    layer as layer_level,
)
from utils.doctor.levels.kernel_switches import Options
from utils.doctor.levels.layer_cases import MASKS, Form
from utils.doctor.modules import libraries, slots

OPTIONS = {"kernel": ("grouped", "masks"), "decoding": ("grouped",),
           "layer": ("self_attention", "masks", "pre_norm", "batch_first", "n_heads", "call",
                     "roles", "packed")}  # of a level, besides those of all
CORNERS = (False, True, "top_left", "bottom_right")


def examine(program, level="kernel", *, causal=False, empty_rows=None, framework=None, **more):
    """Return the Report on a program.

    ``level``: "kernel", ``(q, k, v, keep) -> context or (context, weights)`` on (b, h, i, d),
    (b, h, j, d), (b, h, j, d_v), or "layer", ``(x, memory, weights, n_heads, keep) -> out`` with
    the weight set of ``sizes.weights``; in NumPy, PyTorch or TensorFlow. keep is None or bool, True
    = may attend. ``causal``: True when it applies a causal mask by itself, for n_q == n_k, or
    "top_left" or "bottom_right" when also for others. ``empty_rows``: what a query without keys
    must get, "zeros", "nan", "average" or "unmasked"; None leaves the choice to the program.

    A kernel: ``grouped``, k and v may have fewer heads; ``masks``: "any", or "none" where keep is
    always None. A layer: ``self_attention``, memory is x; ``masks``, those that it takes: "any",
    "heads alike", "padding" (b, 1, 1, j) or "none"; ``pre_norm``, a LayerNorm comes first,
    with eps 1e-5, or what the module's own has, its gain and bias set aside; ``batch_first``,
    False where x is (i, b, e).

    A torch module or Keras layer: ``n_heads``, and ``call(module, x, memory, keep) -> out``, by
    default ``module(x, memory, keep)``, without memory in self-attention, without keep if masks are
    "none". ``program`` may also be a
    class or function ``build(d_model, n_heads)``, a function only with ``call``. ``roles``, {"q":
    name, …} of its parts, and ``packed``, the part that holds [q | k | v], are guessed where
    neither is given. Of ``nn.MultiheadAttention`` and Keras' layer nothing needs to be said.

    Decoding, level "decoding": ``(q, k, v, cache) -> (context, cache)``, new positions only; cache
    is None at first; ``grouped`` as of a kernel. Raises ValueError for a value that there is not,
    TypeError for an option.

    From the shell: python -m utils.doctor FILE.py:NAME --help
    """
    for what, value, allowed in (("level", level, LEVELS), ("causal", causal, CORNERS),
                                 ("empty_rows", empty_rows, (None, *EMPTY)),
                                 ("masks", more.get("masks", "any"), MASKS)):
        if value not in allowed:
            raise ValueError(f"{what} must be one of {', '.join(map(str, allowed))}, got {value!r}")
    strange = [option for option in more if option not in OPTIONS[level]]
    if strange:
        raise TypeError(f"{strange[0]} is no option of level {level}, which has "
                        f"{', '.join(OPTIONS[level])}")
    options = Options(bool(causal), causal if isinstance(causal, str) else "top_left",
                      causal is True, more.pop("grouped", False))
    name = getattr(program, "__name__", type(program).__name__)
    with modules.kept(program):
        try:
            program, kinds = LEVELS[level](program, options, **more)
        except _subject.RefusalError as refusal:
            return Report(name, level, "could not examine", f"it {refusal}.")
        subject, kind, problem = settle(program, kinds, getattr(program, "framework", framework))
        if subject is None:
            hint = _verdict.how_called(level, problem, isinstance(program, modules.Module))
            return Report(name, level, _verdict.of_problem(problem), f"it {problem}.{hint}")
        exam = Exam(subject, kind)
        return _verdict.written(name, level, exam, exam.diagnose(), empty_rows)


def _kernels(program, options, masks="any"):
    return program, kernel_level.levels(options, unmasked=masks == "none")


def _layers(program, options, self_attention=False, masks="any", pre_norm=False, batch_first=True,
            **module):
    form = Form(square=options.square or self_attention, self_attention=self_attention,
                masks=masks, pre_norm=pre_norm)
    heads = None
    if module or isinstance(program, type) or slots.framework(program):
        program, heads = modules.of_module(program, self_attention=self_attention, masks=masks,
                                           batch_first=batch_first, **module)
        form = form._replace(equal_widths=True, own=True, unbiased=program.unbiased,
                             epsilon=program.epsilon)
    elif not batch_first:
        program = libraries.sequence_first(program)
    return program, layer_level.levels(form, options, heads)


def _decoders(program, options):
    options = options._replace(causal=True, corner="bottom_right", square=True)
    return decoding_level.Decoder(program), decoding_level.levels(options)


LEVELS = {"kernel": _kernels, "layer": _layers, "decoding": _decoders}

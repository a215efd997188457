"""What holds for every public function of `utils`: it modifies nothing that it is given."""

import copy
import inspect
import subprocess
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import public_backward
import public_bench
import public_cost
import public_flash
import public_grouped
import public_machines
import public_scale
import public_transformer
import pytest
import torch

from utils import (
    checks,
    clinic,
    decoding_level,
    doctor,
    einsum_attention,
    exam,
    fault_table,
    findings,
    grading,
    invariants,
    kernel_cases,
    kernel_level,
    kernel_switches,
    layer_cases,
    layer_level,
    layouts,
    masks,
    modules,
    numpy_attention,
    parity,
    plots,
    practice,
    probe_run,
    programs,
    reference,
    sequence_first,
    setup,
    sizes,
    subjects,
    tf_attention,
    torch_attention,
    weights,
)
from utils.slots import Slot

ARRAYS = sizes.qkv(d_v=4)
TENSORS = tuple(map(torch.as_tensor, ARRAYS))
PACKED = tuple(map(reference.merge_heads, ARRAYS))
ONE_HEAD = tuple(x[:, 0] for x in ARRAYS)
ADDITIVE = np.ones((4, 9)), np.ones((4, 9)), np.ones(9)
LENGTHS = np.array([7, 3])
SIDES, WEIGHTS = sizes.sides(), sizes.weights()
KEEP = masks.padding([7, 0], 7)
TENSOR_KEEP = torch.as_tensor(KEEP)
FULL = np.broadcast_to(KEEP, (2, 3, 5, 7)).copy()
SCORES = ARRAYS[0] @ ARRAYS[1].swapaxes(-1, -2)
MAPS = numpy_attention.masked_softmax(SCORES, KEEP)
COTANGENT = np.random.default_rng(0).standard_normal((2, 5, 13))
BIAS = np.random.default_rng(0).standard_normal((5, 7))
MODULE = torch_attention.MultiHeadAttention(12, 3, d_in=11, d_out=13).double()
SIDE_TENSORS = tuple(map(torch.as_tensor, SIDES))
LINEARS = [torch.nn.Linear(d_in, 12).double() for d_in in (11, 11, 11, 12)]
EINSUM = einsum_attention.MultiHeadAttentionNew(3, 11, 4, 8).double()
GPT2 = ({"w": np.concatenate([WEIGHTS[f"W_{n}"] for n in "qkv"], axis=1), "b": np.ones(36)},
        {"w": WEIGHTS["W_o"], "b": WEIGHTS["b_o"]})
LINEAR = weights.NAMES["einsum"]
CROSS = sizes.weights(d_in=12, d_out=12) | {"W_k": WEIGHTS["W_k"]}  # kdim=11
PAIRS = layouts.read(WEIGHTS)
CASE, VIEW = parity.case(), parity.torch_function("view", programs.view)
PARITY = parity.table([VIEW], [CASE])
ATTEND = CASE.x, CASE.memory, CASE.weights, 3, CASE.keep
ATTEND_TENSORS = (*map(torch.as_tensor, ATTEND[:2]), {
    name: torch.as_tensor(w) for name, w in CASE.weights.items()}, 3, torch.as_tensor(CASE.keep))
SEQUENCE = sequence_first.MultiHeadAttention(3, 12).double()
ALIBI = sequence_first.AlibiMultiHeadAttention(3, 12, align="top_left").double()
SEQUENCES = tuple(torch.as_tensor(side).transpose(0, 1) for side in sizes.sides(d_in=12))
SEQUENCE_MASK = TENSOR_KEEP[:, 0].permute(1, 2, 0)
SEQUENCE_HEADS = tuple(x.permute(2, 0, 1, 3) for x in TENSORS)
SEQUENCE_SHAPES = tuple(x.shape for x in SEQUENCES)

FORM, OPTIONS = kernel_cases.Form(), kernel_switches.Options()
KERNEL = kernel_level.Kernel(FORM, OPTIONS)
EXAM, ILL = (exam.Exam(subjects.Subject(program, "numpy"), KERNEL) for program in (
    reference.attention, lambda q, k, v, keep: reference.attention(2 * q, k, v, keep)))
LAYER = layer_level.Layer(layer_cases.Form(), OPTIONS, None, layer_cases.Form())
ASKED = LAYER.cases()[1].args
LONG, MHA = sizes.qkv(n_q=7, n_k=7), torch.nn.MultiheadAttention(12, 3)
DECODING = decoding_level.levels(kernel_switches.Options(True, "bottom_right", True))[0]
DECODER = subjects.Subject(decoding_level.Decoder(
    lambda q, k, v, cache: (reference.attention(q, k, v)[0], None)), "numpy")
SWITCHES, VIEW_OF_ONE = kernel_switches.switches(FORM, OPTIONS), reference.softmax(SCORES)


def a_layer_of(x, memory, weights, n_heads, keep):
    return reference.multi_head_attention(x, memory, weights, n_heads, keep)[0]


ASKABLE = modules.of_module(MHA)[0]
ASKED_MODULE = (*(torch.as_tensor(side) for side in sizes.sides(d_in=12)),
                sizes.weights(d_in=12, d_out=12), 3, None)
REPORT = doctor.examine(reference.attention)
KERNEL_CASE, LAYER_CASE = findings.padded(findings.kernel_case(), [7, 3]), findings.layer_case()


def a_layer(x, memory, weights, n_heads, keep):
    """Return a layer's answers, for the probes of its weights."""
    return reference.multi_head_attention(x, memory, weights, n_heads, keep)[0]


def a_decoder(q, k, v, cache):
    """Return the answers of a decoder without a memory."""
    return q, cache


GRADE = grading.Grade("ada.py", "Ada", 12345678, grading.NOTHING, "none")

# Arguments of a call of each function; those that take only numbers and names stand below.
CALLS = {
    "adapters.checked": (CASE.cotangent, CASE),
    "adapters.torch_results": (CASE, {"W": torch.ones(12).double().requires_grad_()},
                               lambda x, memory: x * memory.mean()),
    "assignment.numbers": ("phrase", ["Ada", "Ben"]),
    "checks.boolean": (KEEP,),
    "checks.check_close": (ARRAYS[0], TENSORS[0]),
    "checks.check_shapes": ("b h i d", TENSORS[0]),
    "checks.difference": (ARRAYS[0], TENSORS[0]),
    "checks.drop": (KEEP[:, 0], *PACKED),
    "checks.dtype_name": (TENSORS[0],),
    "checks.heads": (PACKED[0], 3),
    "checks.keep": (KEEP, *TENSORS[:2]),
    "checks.lengths": ([7, 3], 7),
    "checks.per_head": (*PACKED, 3, KEEP),
    "checks.sequence_first": (*SEQUENCES, SEQUENCES[1], 12),
    "checks.sequence_mask": (SEQUENCE_MASK.to(torch.uint8), *SEQUENCE_SHAPES),
    "checks.to_numpy": (TENSORS[0],),
    "checks.valid_lens": (np.array([7, 3]), ARRAYS[0][:, 0] @ ARRAYS[1][:, 0].swapaxes(-1, -2)),
    "clinic.rewritten": (clinic.table, ["together", "in all"]),
    "clinic.table": ([[True, False]], ["a"], ["b", "c"]),
    "conventions.from_additive": (masks.to_additive(KEEP),),
    "conventions.from_drop": (masks.to_drop(KEEP),),
    "conventions.from_keras": (FULL[:, 0],),
    "conventions.from_key_padding": (masks.to_key_padding(KEEP),),
    "conventions.from_onnx": (FULL, 7),
    "conventions.from_sdpa": (TENSOR_KEEP,),
    "conventions.from_sequence_first": (masks.to_sequence_first(FULL),),
    "conventions.from_torch_mha": (masks.to_torch_mha(FULL, 3), 3),
    "conventions.from_valid_lens": (np.array([7, 3]), 7),
    "conventions.to_additive": (KEEP,),
    "conventions.to_drop": (KEEP,),
    "conventions.to_keras": (KEEP, 2, 5),
    "conventions.to_key_padding": (KEEP,),
    "conventions.to_onnx": (KEEP, 7),
    "conventions.to_sdpa": (KEEP,),
    "conventions.to_sequence_first": (KEEP,),
    "conventions.to_torch_mha": (FULL, 3),
    "conventions.to_valid_lens": (KEEP, 2),
    "decoder_attention.causal_mask": (SIDE_TENSORS[1],),
    "decoder_attention.masked_multi_head_self_attention": (
        SIDE_TENSORS[1], *LINEARS, 3, TENSOR_KEEP),
    "decoder_attention.multi_head_attention": (
        *SIDE_TENSORS, SIDE_TENSORS[1], *LINEARS, 3, TENSOR_KEEP),
    "decoding_level.Decoding.besides": (DECODING, DECODER),
    "decoding_level.Decoding.cases": (DECODING,),
    "decoding_level.Decoding.expected": (DECODING, (*LONG, (3, 4)), {}, "nan"),
    "decoding_level.Decoding.limits": (DECODING,),
    "decoding_level.Decoding.others": (DECODING,),
    "decoding_level.Decoding.probes": (DECODING, DECODER),
    "decoding_level.Decoding.steady": (DECODING, DECODER),
    "decoding_level.Decoding.switches": (DECODING, DECODER),
    "decoding_level.Decoding.trouble": (DECODING, subjects.Answer(LONG[2]), (*LONG, (7,))),
    "decoding_level.levels": (OPTIONS,),
    "diagnosis.gap": (ARRAYS[0], ARRAYS[0]),
    "diagnosis.search": (SWITCHES, bool),
    "diagnosis.together": (SWITCHES[:1],),
    "doctor.examine": (reference.attention,),
    "doctor_command.report_on": ("https://example.org/a.py:f", {"level": "kernel"}, 1.0),
    "einsum_attention.MultiHeadAttentionNew.forward": (
        EINSUM, *SIDE_TENSORS, SIDE_TENSORS[1], TENSOR_KEEP[:, 0]),
    "estimates.fitted": (abs, [-1.0, 0.0, 2.0]),
    "estimates.hidden": (VIEW_OF_ONE, SCORES, FULL, FULL, (3,), 0.5),
    "estimates.reach": (VIEW_OF_ONE, "top_left"),
    "estimates.scales": (VIEW_OF_ONE, SCORES, FULL),
    "exam.Exam.agrees": (EXAM, {}),
    "exam.Exam.diagnose": (EXAM,),
    "exam.Exam.differences": (ILL,),
    "exam.Exam.evidence": (EXAM, {}),
    "exam.Exam.gap": (EXAM, *EXAM.answers[0], {}),
    "exam.Exam.largest": (EXAM, {}),
    "exam.Exam.style": (EXAM, {}),
    "exam.Exam.tells": (ILL, {}),
    "exam.settle": (reference.attention, [KERNEL]),
    "explore.head_browser": (list("abcde"), MAPS, list("tuvwxyz"), {"first": MAPS[..., 0, 0]}),
    "explore.mask_painter": (*(x[:, 0] for x in ARRAYS), [7, 3]),
    "fault_marks.html": ([fault_table.Row("no scale", {"variance": 1.0}, 0, 7)],),
    "fault_marks.silent": ([fault_table.Row("no scale", {"variance": 1.0}, 0, 7)],),
    "fault_marks.markdown": ([fault_table.Row("no scale", {"variance": 1.0}, 0, 7)],),
    "fault_table.rows": (probe_run.kernel, [("none", reference.attention, {"d_v": 4})]),
    "faulty.attention": (*ARRAYS, KEEP),
    "faulty_decoding.decode": (*LONG, (3, 4)),
    "faulty_layer.layer": (*SIDES, WEIGHTS, 3, KEEP),
    "findings.Case.ask": (KERNEL_CASE, reference.attention),
    "findings.Case.inputs": (KERNEL_CASE,),
    "findings.Case.rows": (KERNEL_CASE, np.ones((2, 5), bool)),
    "findings.Case.with_mask": (KERNEL_CASE, KEEP, FULL[:, 0]),
    "findings.Case.with_words": (KERNEL_CASE, ARRAYS[1:]),
    "findings.Case.words": (KERNEL_CASE,),
    "findings.causal": (KERNEL_CASE, "top_left"),
    "findings.gaps": (ARRAYS[0], ARRAYS[0] + 1),
    "findings.judge": ("name", ARRAYS[0], ARRAYS[0] + 1, 0, "good", "bad", ARRAYS[0] > 0),
    "findings.masked": (KERNEL_CASE, FULL[:, :1]),
    "findings.padded": (KERNEL_CASE, LENGTHS),
    "grading.Grade.row": (GRADE,),
    "grading.as_csv": ([GRADE],),
    "grading.as_json": ([GRADE],),
    "grading.table": ([GRADE, GRADE],),
    "head_data.packed": (list("abcde"), MAPS, list("tuvwxyz"), {"first": MAPS[..., 0, 0]}, [1, 2]),
    "heads.merge_heads": (TENSORS[0],),
    "heads.split_heads": (torch.as_tensor(PACKED[0]), 3),
    "hearing.causality": (reference.attention, KERNEL_CASE),
    "hearing.empty_row": (reference.attention, KERNEL_CASE),
    "hearing.heard": (reference.attention, KERNEL_CASE),
    "hearing.hearing": (reference.attention, KERNEL_CASE),
    "hearing.padding": (reference.attention, KERNEL_CASE),
    "hearing.pairs": (FULL, KERNEL_CASE),
    "hearing.rubbish": (ARRAYS[1:], ~KEEP[:, 0, 0], 1e6),
    "hearing.voices": (KERNEL_CASE,),
    "invariants.batch_independence": (reference.attention, KERNEL_CASE),
    "invariants.determinism": (reference.attention, KERNEL_CASE),
    "invariants.equivariance": (reference.attention, KERNEL_CASE),
    "invariants.finiteness": (reference.attention, KERNEL_CASE),
    "invariants.noise": (ARRAYS[0],),
    "invariants.query_independence": (reference.attention, KERNEL_CASE),
    "invariants.shape": (reference.attention, KERNEL_CASE),
    "invariants.untouched": (reference.attention, KERNEL_CASE),
    "kernel_cases.confirm": (FORM,),
    "kernel_cases.search": (FORM,),
    "kernel_cases.shape": (FORM, kernel_cases.SEARCH),
    "kernel_cases.tensors": (kernel_cases.SEARCH, 0),
    "kernel_cases.trouble": (EXAM.answers[0][1], EXAM.answers[0][0].args),
    "kernel_cases.weights_of": (EXAM.subject, (*ARRAYS, KEEP)),
    "kernel_level.Kernel.besides": (KERNEL, EXAM.subject),
    "kernel_level.Kernel.cases": (KERNEL,),
    "kernel_level.Kernel.expected": (KERNEL, (*ARRAYS, KEEP), {}, "nan"),
    "kernel_level.Kernel.limits": (KERNEL,),
    "kernel_level.Kernel.others": (KERNEL,),
    "kernel_level.Kernel.probes": (KERNEL, EXAM.subject),
    "kernel_level.Kernel.steady": (KERNEL, EXAM.subject),
    "kernel_level.Kernel.switches": (KERNEL, EXAM.subject),
    "kernel_level.Kernel.trouble": (KERNEL, EXAM.answers[0][1], EXAM.answers[0][0].args),
    "kernel_level.levels": (OPTIONS,),
    "kernel_probes.cache": (a_decoder, KERNEL_CASE),
    "kernel_probes.decoded": (a_decoder, KERNEL_CASE, 2),
    "kernel_probes.equals_reference": (reference.attention, KERNEL_CASE),
    "kernel_probes.head_independence": (reference.attention, KERNEL_CASE),
    "kernel_probes.row_sums": (reference.attention, KERNEL_CASE),
    "kernel_probes.spread": (reference.attention, findings.kernel_case(), 4),
    "kernel_probes.variance": (reference.attention, findings.kernel_case()),
    "kernel_probes.weights_match": (reference.attention, KERNEL_CASE),
    "kernel_probes.within": (SCORES, FULL),
    "kernel_constants.constants": (
        EXAM.ask, [kernel_cases.SEARCH, kernel_cases.SECOND], OPTIONS, "padding"),
    "kernel_switches.Options.settings": (OPTIONS,),
    "kernel_switches.switches": (FORM, OPTIONS),
    "layer_cases.as_kernel": (bool, LAYER.form),
    "layer_cases.confirm": (LAYER.form,),
    "layer_cases.Form.kernel": (LAYER.form,),
    "layer_cases.ladder": (LAYER.form,),
    "layer_cases.search": (LAYER.form,),
    "layer_cases.shape": (LAYER.form, layer_cases.SEARCH),
    "layer_cases.tensors": (LAYER.form, layer_cases.SEARCH, 0),
    "layer_cases.trouble": (subjects.Answer(COTANGENT), ASKED),
    "layer_level.Layer.besides": (LAYER, subjects.Subject(a_layer_of, "numpy")),
    "layer_level.Layer.cases": (LAYER,),
    "layer_level.Layer.expected": (LAYER, ASKED, {}, "nan"),
    "layer_level.Layer.limits": (LAYER,),
    "layer_level.Layer.others": (LAYER,),
    "layer_level.Layer.probes": (LAYER, subjects.Subject(a_layer_of, "numpy")),
    "layer_level.Layer.steady": (LAYER, EXAM.subject),
    "layer_level.Layer.switches": (LAYER, EXAM.subject),
    "layer_constants.constants": (EXAM.subject, LAYER),
    "layer_level.Layer.trouble": (LAYER, subjects.Answer(COTANGENT), ASKED),
    "layer_level.Layer.unsought": (LAYER,),
    "layer_level.levels": (LAYER.form, OPTIONS),
    "layer_probes.blocks": (WEIGHTS, 3),
    "layer_probes.equals_reference": (
        lambda x, memory, keep: x, LAYER_CASE, sizes.weights(d_in=12, d_out=12), 3),
    "layer_probes.same_words": (lambda x, memory, keep: x, LAYER_CASE),
    "layer_probes.weights_on_off": (
        lambda x, memory, keep: x, lambda x, memory, keep: (x, None), LAYER_CASE),
    "layer_probes.weights_used": (a_layer, LAYER_CASE, CASE.weights, 3),
    "layer_switches.switches": (LAYER.form, OPTIONS),
    "layouts.fit": (PAIRS,),
    "layouts.listed": (weights.to_dense(WEIGHTS), 2, "Keras"),
    "layouts.pack": (PAIRS, 3),
    "layouts.read": (WEIGHTS,),
    "layouts.unpack": (layouts.pack(PAIRS),),
    "layouts.weight_set": (PAIRS,),
    "layouts.write": (PAIRS, layouts.HOUSE),
    "masks.band": ([[0, 1], [2, 3]], 7, 1, 0),
    "masks.decoder": ([7, 3], 7),
    "masks.padding": (np.array([7, 3]), 7),
    "libraries.epsilon": (MHA,),
    "libraries.known": (MHA,),
    "libraries.plain": (lambda x, memory, keep: memory, *SIDES, KEEP),
    "libraries.plain_self": (lambda x, keep: x, *SIDES, KEEP),
    "libraries.unmasked": (lambda x, memory: x, *SIDES, KEEP),
    "libraries.unmasked_self": (lambda x: x, *SIDES, KEEP),
    "libraries.sequence_first": (a_layer_of,),
    "modules.kept": (MHA,),
    "modules.Module.asking": (ASKABLE, *ASKED_MODULE),
    "modules.Module.parameters": (ASKABLE,),
    "modules.of_module": (MHA, 3),
    "norms.layer_norm": (*SIDE_TENSORS[:1], torch.ones(11), torch.ones(11)),
    "norms.rms_norm": (SIDES[0], np.ones(11)),
    "numpy_attention.additive_attention": (*ARRAYS, *ADDITIVE, KEEP),
    "numpy_attention.additive_scores": (*ARRAYS[:2], np.ones((4, 9)), np.ones((4, 9)), np.ones(9)),
    "numpy_attention.attention": (*ARRAYS, KEEP),
    "numpy_attention.linear": (SIDES[0], WEIGHTS["W_q"], WEIGHTS["b_q"]),
    "numpy_attention.masked_softmax": (SCORES, KEEP),
    "numpy_attention.mha": (SIDES[1], *GPT2, 3, masks.causal(7)),
    "numpy_attention.softmax": (SCORES,),
    "parity.Case.astype": (CASE, "float32"),
    "parity.Case.sides": (CASE,),
    "parity.Table.cells": (PARITY,),
    "parity.Table.check": (PARITY,),
    "parity.differences": (VIEW, CASE),
    "parity.expected": (CASE,),
    "parity.run": (VIEW, CASE),
    "parity.table": ([VIEW], [CASE]),
    "plots.attention_maps": (ARRAYS[2][0], list("abcdefg"), list("wxyz"), ["1", "2", "3"]),
    "plots.heatmap": (plots.figure()[1], SCORES[0, 0], list("abcde"), list("tuvwxyz")),
    "plots.mask_grids": ({"causal": masks.causal(4)},),
    "probe_process.flat": ([ARRAYS[0], None, WEIGHTS, 3],),
    "probe_process.full": ({"count": np.array(2), "1.": ARRAYS[0]},),
    "probe_process.told": (ValueError("no"), "probe.py"),
    "probe_process.verdict": (callable, reference.attention, "probe.py"),
    "probe_score.answered": (reference.attention, {
        "count": np.array(4), "0.": ARRAYS[0], "1.": ARRAYS[1], "2.": ARRAYS[2], "3.": KEEP}),
    "probe_run.answers": (reference.attention, probe_run.KERNEL, {"plain": KERNEL_CASE}),
    "probe_run.asked": (invariants.shape, reference.attention, KERNEL_CASE),
    "probe_run.decoding": (a_decoder,),
    "probe_run.finite": (lambda q, k, v, keep: q, *ARRAYS),
    "probe_run.on_off": (lambda x, memory, keep: x, lambda x, memory, keep: (x, None), SIDES, KEEP,
                         1e-9),
    "probe_run.kernel": (reference.attention,),
    "probe_run.kinds": (KERNEL_CASE, True, "top_left", "any", 0),
    "probe_run.layer": (lambda x, memory, keep: x,),
    "practice.Check.hint": (
        practice.Check({"a": practice.Exercise(len, ("One.", "Two."), "")}), "a"),
    "practice.asked": (sum, ARRAYS[0]),
    "practice.examined": (reference.attention,),
    "answers.listed": (["One.", "Two."],),
    "answers.same": (ARRAYS[0].tolist(), ARRAYS[0].tolist()),
    "answers.unlike": (ARRAYS[0].tolist(), ARRAYS[1].tolist()),
    "practice.untouched": ({"a": [None], "b": ARRAYS},),
    "probes.leaks": (lambda x: x.cumsum(dim=1), SIDE_TENSORS[1], masks.causal(7)),
    "programs.linear": (CASE.x, CASE.weights["W_q"], CASE.weights["b_q"]),
    "programs.loops": ATTEND,
    "programs.per_head": ATTEND_TENSORS,
    "programs.project": ATTEND_TENSORS[:3],
    "programs.view": ATTEND_TENSORS,
    "reference.attention": (*ARRAYS, KEEP, BIAS),
    "reference.attention_gradient": (*ARRAYS, ARRAYS[0], KEEP),
    "reference.attention_loops": (*(x[0, 0] for x in ARRAYS), FULL[0, 0]),
    "reference.attention_scores": (*ARRAYS[:2], KEEP, BIAS),
    "reference.float64": (ARRAYS[0],),
    "reference.merge_heads": (ARRAYS[0],),
    "reference.multi_head_attention": (*SIDES, WEIGHTS, 3, KEEP),
    "reference.multi_head_attention_gradient": (*SIDES, WEIGHTS, 3, COTANGENT, KEEP),
    "reference.project": (*SIDES, WEIGHTS, 3),
    "reference.repeat_heads": (ARRAYS[0], 6),
    "reference.softmax": (SCORES,),
    "reference.split_heads": (PACKED[0], 3),
    "report.described": ("no scale", {"no scale": "none"}),
    "report.Report.lines": (REPORT,),
    "report.Report.to_dict": (REPORT,),
    "sequence_first.AlibiMultiHeadAttention.get_scores": (ALIBI, *SEQUENCE_HEADS[:2]),
    "sequence_first.MultiHeadAttention.forward": (SEQUENCE,),
    "sequence_first.MultiHeadAttention.get_scores": (SEQUENCE, *SEQUENCE_HEADS[:2]),
    "sequence_first.MultiHeadAttention.prepare_mask": (SEQUENCE, SEQUENCE_MASK, *SEQUENCE_SHAPES),
    "sequence_first.PrepareForMultiHeadAttention.forward": (SEQUENCE.query, SEQUENCES[0]),
    "sequence_first.masked_softmax": (
        torch.as_tensor(SCORES).permute(2, 3, 0, 1), SEQUENCE_MASK[..., None]),
    "setup.install": (["numpy"], [("numpy", "2.4.6")]),
    "setup.ready": ({"numpy": "1.0"},),
    "slots.framework": (MHA,),
    "slot_guess.guess": (MHA, 12, 3),
    "slots.named": ({"o": "out_proj"}, "in_proj_weight"),
    "slots.parts": (MHA, "out_proj"),
    "slots.tensors": (MHA, "out_proj"),
    "slots.unsure": (MHA, [Slot("out_proj", "o")]),
    "subjects.answering": (EXAM.subject,),
    "frameworks.guesses": (reference.attention,),
    "subjects.trials": (reference.attention,),
    "tf_attention.AdditiveAttention.call": (
        tf_attention.AdditiveAttention(4, 4, 9, 0.5), *ONE_HEAD, LENGTHS),
    "tf_attention.DotProductAttention.call": (
        tf_attention.DotProductAttention(0.5), *ONE_HEAD, LENGTHS),
    "tf_attention.MultiHeadAttention.call": (
        tf_attention.MultiHeadAttention(11, 11, 11, 12, 3, 0.5), *SIDES, SIDES[1], LENGTHS),
    "tf_attention.masked_softmax": (SCORES[:, 0], LENGTHS),
    "tf_attention.transpose_output": (ARRAYS[0][0], 3),
    "tf_attention.transpose_qkv": (PACKED[0], 3),
    "timing.interleaved": ({"a": list}, 1),
    "timing.ratios": ({"a": 1.0, "b": 2.0},),
    "torch_attention.MultiHeadAttention.forward": (MODULE, *SIDE_TENSORS, TENSOR_KEEP, False, True),
    "torch_attention.MultiHeadAttention.project": (MODULE, *SIDE_TENSORS),
    "torch_attention.additive_attention": (*TENSORS, *map(torch.as_tensor, ADDITIVE), TENSOR_KEEP),
    "torch_attention.attention": (*TENSORS, TENSOR_KEEP),
    "torch_attention.attention_per_head": (*map(torch.as_tensor, PACKED), 3, TENSOR_KEEP),
    "torch_attention.fused_attention": (*TENSORS, TENSOR_KEEP),
    "torch_attention.masked_softmax": (torch.as_tensor(SCORES), TENSOR_KEEP),
    "torch_attention.with_causal": (TENSOR_KEEP[..., :5], True, TENSORS[0], TENSORS[0]),
    "verdict.written": ("reference", "kernel", EXAM, [()]),
    "weights.from_dense": (weights.to_dense(WEIGHTS),),
    "weights.from_gpt2": weights.to_gpt2(WEIGHTS),
    "weights.from_in_proj": (weights.to_in_proj(CROSS),),
    "weights.from_interleaved": (weights.to_interleaved(WEIGHTS, 3), 3),
    "weights.from_keras": (weights.to_keras(WEIGHTS, 3),),
    "weights.from_linear": (weights.to_linear(WEIGHTS, LINEAR), LINEAR),
    "weights.from_qkv_module": (dict(MODULE.state_dict()),),
    "weights.to_dense": (WEIGHTS,),
    "weights.to_gpt2": (WEIGHTS,),
    "weights.to_in_proj": (CROSS,),
    "weights.to_interleaved": (WEIGHTS, 3),
    "weights.to_keras": (WEIGHTS, 3),
    "weights.to_linear": (WEIGHTS, LINEAR),
    "weights.to_qkv_module": (WEIGHTS,),
}
PARTS = (public_backward, public_bench, public_cost, public_flash, public_grouped, public_machines,
         public_scale, public_transformer)
for part in PARTS:
    CALLS |= part.CALLS
KEYWORDS = {"sequence_first.MultiHeadAttention.forward": {
    "query": SEQUENCES[0], "key": SEQUENCES[1], "value": SEQUENCES[1], "mask": SEQUENCE_MASK}}
WRITES = {"probe_process.receive", "probe_process.send", "libraries.unlearned",
          "slots.write", "weights.load",  # into its first argument: that is what it is for
          *(name for part in PARTS for name in getattr(part, "WRITES", ()))}
NOTHING_TO_MODIFY = {
    "diagnosis.rounded", "doctor_child.examined", "doctor_child.found", "doctor_child.imported",
    "doctor_child.main", "doctor_command.main", "doctor_command.parser",
    "doctor_command.Parser.error", "doctor_command.refusal", "doctor_command.roles",
    "doctor_command.run", "report.wrapped", "verdict.how_called",
    "subjects.refusing", "verdict.of_problem",
    "zoo_scores.held_out", "zoo_scores.load", "zoo_scores.markdown",
    "adapters.keras_layer", "adapters.numpy_function", "adapters.torch_function",
    "adapters.torch_module",
    "assignment.hand_out", "assignment.handout", "assignment.main", "assignment.number",
    "assignment.options", "assignment.seed", "assignment.signed",
    "checks.corner", "checks.divisible", "explore.reshape_microscope", "frameworks.keras_dtype",
    "frameworks.onnx",
    "fault_table.decoders", "fault_table.kernels", "fault_table.layers", "fault_table.table",
    "faults.assignment", "grading.accepted", "grading.fields", "grading.grades",
    "panel.healthy", "panel.panel", "patients.names", "patients.sick",
    "probe_process.load", "probe_process.main", "probe_score.asked", "probe_score.score",
    "findings.kernel_case",
    "findings.layer_case", "findings.place",
    "frameworks.tensorflow", "layer_probes.parameter_count",
    "kernel_cases.ladder", "layouts.linear", "masks.causal", "masks.offsets", "masks.window",
    "parity.bound", "parity.case", "parity.eight_cases", "parity.programs", "plots.figure",
    "positions.alibi_bias", "positions.alibi_slopes", "practice.predictions", "programs.einsum",
    "programs.folded", "programs.keras_mha", "programs.sdpa", "programs.sequence_first",
    "programs.ten", "programs.torch_mha", "setup.installed",
    "setup.numbers", "setup.on_colab", "sizes.lengths", "sizes.qkv", "sizes.sides", "sizes.weights",
    "tf_attention.dense", "timing.peak_memory",
    *(name for part in PARTS for name in getattr(part, "NOTHING_TO_MODIFY", ())),
}


def public_functions():
    """Return {"module.function": function} of all public functions and methods of utils."""
    found = {}
    for path in Path(setup.__file__).parent.glob("[!_]*.py"):
        module = import_module(f"utils.{path.stem}")
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_"):
                if inspect.isfunction(value):
                    found[f"{path.stem}.{name}"] = value
                elif inspect.isclass(value):
                    found |= {f"{path.stem}.{name}.{key}": method
                              for key, method in vars(value).items()
                              if inspect.isfunction(method) and not key.startswith("_")}
    return found


def contents(argument):
    """Return what must stay as it is: the numbers, and how often a tensor was written to."""
    if isinstance(argument, (list, tuple)):
        return [contents(item) for item in argument]
    if isinstance(argument, dict):
        return {key: contents(item) for key, item in argument.items()}
    if isinstance(argument, torch.nn.Module):
        return contents(dict(argument.state_dict()))
    if hasattr(argument, "get_weights"):  # a layer of Keras
        return contents(argument.get_weights())
    if isinstance(argument, torch.Tensor):
        return (argument._version, argument.tolist())
    if isinstance(argument, np.ndarray):
        return argument.tolist()
    return argument if isinstance(argument, (str, float, int)) else type(argument)


def test_every_public_function_is_called_here():
    assert set(public_functions()) == set(CALLS) | NOTHING_TO_MODIFY | WRITES


@pytest.mark.parametrize("name", CALLS)
def test_arguments_are_not_modified(name, monkeypatch):
    if name == "setup.install":
        monkeypatch.setattr(setup.subprocess, "run",
                            lambda *args, **_: subprocess.CompletedProcess(args, 0))
    arguments, keywords = CALLS[name], KEYWORDS.get(name, {})
    before = copy.deepcopy(contents([*arguments, keywords]))
    public_functions()[name](*arguments, **keywords)
    plt.close("all")
    assert contents([*arguments, keywords]) == before


def test_a_modified_argument_would_be_noticed():
    for argument in (np.ones(3), torch.ones(3), [1, 2], {"a": np.ones(2)}, copy.deepcopy(MODULE)):
        before = copy.deepcopy(contents(argument))
        assert contents(argument) == before
        if isinstance(argument, torch.nn.Module):
            argument.W_o.bias.data.zero_()
        elif isinstance(argument, dict):
            argument["a"][0] = 2
        elif isinstance(argument, torch.Tensor):
            argument.add_(1).sub_(1)
        else:
            argument[0] = 5
        assert contents(argument) != before


def test_keep_is_given_in_numpy_or_in_the_programs_own_framework():
    for name in ("attention", "fused_attention"):
        program = getattr(torch_attention, name)
        got, same = (program(*TENSORS, keep) for keep in (KEEP, TENSOR_KEEP))
        assert torch.equal(*(x[0] if name == "attention" else x for x in (got, same)))
    assert checks.difference(reference.attention(*ARRAYS, KEEP)[0],
                             reference.attention(*TENSORS, TENSOR_KEEP)[0]) == 0

"""The probes alone catch every fault that a kernel can have."""

from functools import partial
from xml.etree import ElementTree

import pytest

from utils import sizes
from utils.doctor import faults, faulty, tables
from utils.doctor.probes import run as probe_run
from utils.doctor.tables import Row

pytestmark = pytest.mark.slow

# What no probe catches, named beforehand. Of packed orders, one exchanges q and v; all others move
# k, on whose bias no output may depend.
BLIND = {"transposed weight", "packed order"}
SCALES = {"no scale", "scale by sqrt(d_model)", "constant scale", "scaled twice"}  # in a layer
# What is seen only by changing the weights one by one.
BY_WEIGHTS = {"missing bias", "shared head", "input split before projection", "missing W_o",
              "interleaved packing"}


@pytest.fixture(scope="module")
def rows():
    return {row.fault: row for row in tables.table()}


def test_the_probes_see_all_but_what_was_named(rows):
    assert {row.fault for row in rows.values() if row.missed} == BLIND
    assert rows["packed order"].missed == 2 < rows["packed order"].programs


def test_inside_a_layer_no_probe_catches_a_wrong_scale():
    inside = tables.rows(probe_run.probe_layer, tables.layers("kernel"))
    assert {"no causal mask", "causal off by one"} < {row.fault for row in inside}
    assert {row.fault for row in inside if row.missed} == SCALES
    assert {row.missed / row.programs for row in inside if row.fault in SCALES} == {1}
    assert len(BLIND | SCALES) <= 8


def test_some_faults_are_seen_only_by_changing_weights(rows):
    found = {fault for fault, row in rows.items()
             if {probe for probe, share in row.caught.items() if share} == {"weights used"}}
    assert found == BY_WEIGHTS | {"packed order"}


def test_every_fault_with_a_name_is_in_the_table(rows):
    only_told = {fault.name for fault in faults.TODAY}
    rare = {"scaled after softmax", "mask transposed", "new layer in every call",
            "weights not used", "wrong projection", "memory ignored", "x and memory exchanged",
            "positions restart"}
    assert set(rows) == {*faults.FAULTS} - only_told - rare


def test_kernels_without_a_switch_are_healthy():
    for _, options, told in tables.KERNELS:
        program = partial(faulty.kernel.attention, **options.settings())
        found = probe_run.probe_kernel(program, **told)
        assert all(finding.ok for finding in found)


def test_layers_without_a_switch_are_healthy():
    weights = sizes.weights(d_in=12, d_out=12)
    for _, options, told in (*tables.LAYERS, tables.CAUSAL):
        program = partial(faulty.layer.layer, **options.settings())
        found = probe_run.probe_layer(program, weights=weights, **told)
        assert all(finding.ok for finding in found)


def test_a_decoder_without_a_switch_is_healthy():
    _, step, _ = next(tables.decoders())
    found = probe_run.probe_decoding(partial(step.func, {}))
    assert all(finding.ok for finding in found)


@pytest.mark.parametrize(("fault", "probe"), [
    ("no scale", "variance"), ("scaled twice", "variance"), ("constant scale", "variance"),
    ("softmax over queries", "row sums"), ("softmax over queries", "query independence"),
    ("softmax over heads and keys", "head independence"),
    ("softmax over batch", "batch independence"), ("tile for repeat", "head independence"),
    ("k and v swapped", "row sums"), ("q and k swapped", "equivariance"),
    ("no causal mask", "causality"), ("window", "dependence"), ("mask value too high", "padding"),
    ("dropout in eval", "determinism"), ("split without transpose", "same tokens"),
    ("merge without transpose", "equivariance"), ("LayerNorm over time", "causality"),
    ("split and merge without transpose", "equivariance"),
    ("batch and sequence swapped", "batch independence"), ("missing bias", "weights used"),
    ("padding leak", "padding"), ("other example's mask", "batch independence"),
    ("cache position", "cache"), ("cache not appended", "cache"), ("cache overwritten", "cache"),
    ("keys cached, values not", "cache"), ("unmasked prompt", "cache")])
def test_a_probe_sees_every_program_with_the_fault_it_is_for(rows, fault, probe):
    assert rows[fault].caught[probe] == 1


@pytest.mark.parametrize(("fault", "probe"), [
    ("no scale", "row sums"), ("no scale", "causality"), ("scaled twice", "equivariance"),
    ("softmax over heads", "equivariance"), ("softmax over heads and keys", "causality"),
    ("mask added as 0/1", "row sums"), ("mask ignored", "equivariance"),
    ("other causal alignment", "row sums"), ("split and merge without transpose", "causality")])
def test_a_probe_does_not_catch_other_faults(rows, fault, probe):
    assert rows[fault].caught[probe] == 0


def test_causal_programs_are_not_shuffled(rows):
    assert "equivariance" not in rows["other causal alignment"].caught
    assert "equivariance" in rows["mask inverted"].caught


def test_faults_come_in_as_many_programs_as_there_are_switches(rows):
    assert (rows["no scale"].programs, rows["tile for repeat"].programs) == (7, 1)
    assert (rows["mask value too high"].programs, rows["window"].programs) == (3, 1)


def test_a_probe_that_saw_nothing_is_silent():
    rows = [Row("a", {"p": 1.0, "q": 0.0}, 0, 4), Row("b", {"q": 0.0, "r": 0.0}, 4, 4)]
    assert tables.silent(rows) == ["q", "r"]


def test_the_table_says_all_some_none_and_not_asked_and_leaves_silent_probes_out():
    rows = [Row("a <b>", {"p q": 1.0, "r": 0.5, "s": 0.0}, 0, 4), Row("c", {"p q": 0.0}, 4, 4)]
    page = tables.html(rows)
    table = ElementTree.fromstring(page)
    assert [["".join(cell.itertext()) for cell in line] for line in table.iter("tr")] == [
        ["fault", "p q", "r"], ["a <b>", "●", "○"], ["c", "·", ""]]
    assert page.startswith('<table class="dataframe">')

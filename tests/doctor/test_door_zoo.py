"""Programs in the styles of public repositories, examined without an option.

Their verdicts were declared before the doctor saw them. What it does not get right is listed here,
so that no program joins the list, or leaves it, unnoticed.
"""

from pathlib import Path

import cases_again
import cases_held
import cases_modules
import cases_others
import pytest

from utils.doctor import _child, command
from utils.doctor.zoo_scores import at_the_door, load_scores

FOLDER = Path(__file__).parent / "door_zoo"
CASES = {f"{which}/{file}:{name}": verdict
         for which, cases in (("modules", cases_modules), ("others", cases_others),
                              ("held", cases_held), ("again", cases_again))
         for (file, name), verdict in cases.CASES.items()}
NOT_EXAMINED = {
    "others/alignment.py:soft_align",               # keys and values are one array
    "held/luong.py:LuongAttention", "held/keras_text.py:BahdanauAttention",  # other attentions
    "held/rel_attention.py:TalkingHeadsAttention",  # its heads are mixed by more weights
    "held/sagan.py:SelfAttn",                       # q and k are narrower than v
    "held/sasrec.py:SASRecBlock",                   # only the query is normalised
    "held/keras_text.py:Self_Attention",            # q, k and v are one array of three axes
    "again/swin_stage.py:WindowAttention"}          # the number of tokens is fixed
MISJUDGED = {
    # only a docstring, or who calls it, says what the mask or the first axis means
    "modules/sdpa_encoder.py:FusedSelfAttention", "others/decoder_fn.py:attention",
    "held/tf_news.py:masked_dot_attention", "held/traffic_encoder.py:TemporalEncoder",
    "held/bard.py:Head",                            # with one head, √d_model is √d
    "held/ragged.py:attend",                        # all lengths inverted: unexplained
    "again/kv_decoder.py:CachedAttention", "again/story_gpt.py:Attention"}  # with a cache only
CALLED_HEALTHY = MISJUDGED - {"held/ragged.py:attend"}
# On some processors TensorFlow ends the process of "chatbot": a sum of axes that do not fit.
PROGRAMS = [pytest.param(case, marks=pytest.mark.xdist_group("door zoo")) for case in CASES]


def examined(case):
    path, _, name = case.partition(":")
    if "chatbot" in path or "jit" in path:  # in a process of its own: it may end it, or warn
        return command.report_on(f"{FOLDER / path}:{name}", {}, 60.0)
    return _child.examined(FOLDER / path, name, {})


def outcome(case, report):
    """Return "right", "not examined", "false alarm" or "misjudged"."""
    verdict = CASES[case]
    if report.verdict == "could not examine":
        return "not examined"
    if not verdict or verdict[0] == "design":
        return "right" if report.verdict == "healthy" else "false alarm"
    named = {fault for some in report.names for fault in some}
    caught = report.verdict in ("sick", "unexplained")
    return "right" if named & {*verdict} or (caught and verdict[0] == "?") else "misjudged"


def sick(case):
    """Return whether a fault of the program is declared."""
    return bool(CASES[case]) and CASES[case][0] != "design"


@pytest.mark.slow
@pytest.mark.parametrize("case", PROGRAMS)
def test_a_program_is_judged_as_was_declared_before(case):
    expected = ("not examined" if case in NOT_EXAMINED
                else "misjudged" if case in MISJUDGED else "right")
    report = examined(case)
    ended = "chatbot" in case and report.verdict == "could not examine"
    assert ended or outcome(case, report) == expected, report
    assert (sick(case) and report.verdict == "healthy") == (case in CALLED_HEALTHY)


def test_the_zoo_is_as_large_as_it_says_and_its_lists_are_of_it():
    assert len(CASES) == 168
    lists = NOT_EXAMINED, MISJUDGED
    now = load_scores()["door"]["now"]
    assert [now[one] for one in ("not examined", "misjudged")] == [*map(len, lists)]
    assert now["false alarm"] == 0
    door = load_scores()["door"]
    assert door["sick"] == sum(map(sick, CASES))
    assert door["called healthy"] == len(CALLED_HEALTHY)
    assert sum(now.values()) == len(CASES)
    assert at_the_door().splitlines()[2].split()[-2] == str(now["right"])
    assert set().union(*lists) <= CASES.keys()
    assert len(set().union(*lists)) == sum(map(len, lists))

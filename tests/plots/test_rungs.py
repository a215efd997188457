"""The ladder: the points are the results, the lines are the counts."""

import matplotlib.pyplot as plt
import pytest

from utils import plots

RESULTS = {"rungs": ["none", "heads", "block"], "bigram": 3.7, "best count": 2.2,
           "bits": {"beside": [9, 9], "none": [3.6, 3.8], "heads": [3.1, 3.3],
                    "block": [2.1, 2.3]}}


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def drawn(ax, label):
    return [(list(line.get_xdata()), set(line.get_ydata())) for line in ax.lines
            if line.get_label() == label]


@pytest.mark.parametrize(("up_to", "rungs"), [(None, 3), ("block", 3), ("heads", 2), ("none", 1)])
def test_the_rungs_that_the_reader_has_climbed_are_drawn(up_to, rungs):
    fig = plots.ladder(RESULTS, up_to)
    ax, = fig.axes
    names = RESULTS["rungs"][:rungs]
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    assert drawn(ax, "rung") == [(RESULTS["bits"][name], {n}) for n, name in enumerate(names)]
    assert {"3.70", "3.20", "2.20"} & {text.get_text() for text in ax.texts} == {
        f"{sum(RESULTS['bits'][name]) / 2:.2f}" for name in names}
    assert [line.get_xdata() for line in ax.lines if line.get_linestyle() == "--"] == [
        [3.7, 3.7], [2.2, 2.2]]
    assert {"counting pairs\n3.70", "best count\n2.20"} < {text.get_text() for text in ax.texts}


def test_the_readers_own_runs_are_marked():
    fig = plots.ladder(RESULTS, "heads", {"heads": 3.25})
    ax, = fig.axes
    assert drawn(ax, "yours") == [([3.25], {1})]
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["one of three seeds",
                                                                        "your run"]


def test_the_legend_shows_the_readers_diamond_when_the_last_rung_is_not_theirs():
    fig = plots.ladder(RESULTS, yours={"heads": 3.25})
    assert [line.get_marker() for line in fig.legends[0].get_lines()] == ["o", "D"]


@pytest.mark.parametrize("given", [("heds",), ("heads", {"heds": 2})])
def test_an_unknown_rung_is_named(given):
    with pytest.raises(ValueError, match=r"^the rungs are none, heads, block; got 'heds'$"):
        plots.ladder(RESULTS, *given)


def test_no_text_overlaps_or_leaves_the_picture():
    for up_to in RESULTS["rungs"]:
        fig = plots.ladder(RESULTS, up_to)
        fig.draw_without_rendering()
        boxes = [text.get_window_extent() for text in fig.axes[0].texts]
        for n, box in enumerate(boxes):
            assert fig.bbox.x0 <= box.x0 < box.x1 <= fig.bbox.x1
            assert fig.bbox.y0 <= box.y0 < box.y1 <= fig.bbox.y1
            assert not any(box.overlaps(other) for other in boxes[n + 1:])

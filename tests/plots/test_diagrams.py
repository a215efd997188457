"""Diagrams: every box within the picture, and the reader's place in blue."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch

from utils.plots import diagrams

DRAWN = {"transformer": diagrams.transformer, "head": diagrams.head, "heads": diagrams.heads,
         "five heads": lambda: diagrams.heads(5), "block": diagrams.block,
         "strip": lambda: diagrams.strip(range(8), {"by token": "aaaabbbb", "by head": "ccddccdd"})}


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_leaves_the_picture_and_no_two_texts_overlap(name):
    fig = DRAWN[name]()
    fig.draw_without_rendering()
    ax, = fig.axes
    boxes = [text.get_window_extent() for text in ax.texts if text.get_text()]
    for n, box in enumerate(boxes):
        assert fig.bbox.x0 <= box.x0 < box.x1 <= fig.bbox.x1
        assert fig.bbox.y0 <= box.y0 < box.y1 <= fig.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[n + 1:])


@pytest.mark.parametrize(("here", "blue"), [(None, 0), ("attention", 1), ("feed-forward", 3),
                                            ("embedding", 3), ("scores", 1)])
def test_here_is_blue(here, blue):
    ax, = diagrams.transformer(here).axes
    boxes = [patch for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    assert sum(to_hex(box.get_facecolor()) == diagrams.HERE.lower() for box in boxes) == blue


def test_a_strip_has_a_colour_for_each_owner_and_a_bracket_for_each_run():
    ax, = diagrams.strip([0, 1, 10, 11, 2, 3], {"heads": ["h 0"] * 2 + ["h 1"] * 2 + ["h 0"] * 2,
                                                "tokens": ["t 0"] * 6}).axes
    colours = [to_hex(patch.get_facecolor()).upper() for patch in ax.patches]
    blue, orange = diagrams.TINTS[:2]
    assert colours == [blue] * 6 + [blue, blue, orange, orange, blue, blue]  # the last row first
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["tokens", "0", "1", "10", "11", "2", "3", "t 0",
                     "heads", "0", "1", "10", "11", "2", "3", "h 0", "h 1", "h 0"]


def test_both_layers_of_a_block_have_a_norm_before_and_a_residual():
    ax, = diagrams.block().axes
    height = {}
    for text in ax.texts:
        height.setdefault(text.get_text(), []).append(text.get_position()[1])
    for n, name in enumerate(("attention", "feed-forward")):
        assert height["LayerNorm"][n] < height[name][0] < height["+"][n]
    assert len(height["residual"]) == 2


def test_another_name_is_refused():
    with pytest.raises(ValueError, match=r"one of tokens, .* scores, next token, got 'heads'$"):
        diagrams.transformer("heads")

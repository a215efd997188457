"""Figures show the numbers they are given: orientation, labels, one scale, readable numbers."""

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from utils import masks, plots, reference, sizes

ROOT = Path(__file__).resolve().parents[2]
WEIGHTS = reference.attention(*sizes.qkv(batch=1))[1][0]  # (h, i, j)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def labels(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def test_figure_has_the_size_and_the_panels_asked_for():
    fig, axes = plots.figure(3, 2, width=7.0, height=4.0)
    assert axes.shape == (2, 3)
    assert fig.get_size_inches().tolist() == [7.0, 4.0]
    assert fig.dpi == 100
    assert to_hex(fig.get_facecolor()) == "#ffffff"
    fig, _ = plots.figure(sharey=True)
    assert fig.get_size_inches().tolist() == [6.4, 3.6]


def test_lines_take_the_colours_of_the_course():
    _, ax = plots.figure()
    lines = [ax.plot([n, n + 1])[0] for n in range(len(plots.COLOURS))]
    assert tuple(line.get_color() for line in lines) == plots.COLOURS
    assert len(set(plots.COLOURS)) == 8


def test_heatmap_puts_query_0_on_top_and_key_0_on_the_left():
    _, ax = plots.figure()
    image = plots.heatmap(ax, WEIGHTS[0], title="head 0")
    np.testing.assert_array_equal(image.get_array(), WEIGHTS[0])
    assert image.origin == "upper"
    assert ax.yaxis_inverted()
    assert not ax.xaxis_inverted()
    assert ax.get_title() == "head 0"
    assert labels(ax.yaxis) == list("01234")
    assert labels(ax.xaxis) == list("0123456")


def test_heatmap_takes_tokens_as_labels_and_tensors_as_numbers():
    _, ax = plots.figure()
    image = plots.heatmap(ax, torch.as_tensor(WEIGHTS[0]).bfloat16().requires_grad_(),
                          rows=list("abcde"), columns=list("tuvwxyz"))
    np.testing.assert_allclose(image.get_array(), WEIGHTS[0], atol=2e-3)
    assert labels(ax.yaxis) == list("abcde")
    assert labels(ax.xaxis) == list("tuvwxyz")
    assert image.get_cmap().name == "weights"


def test_a_dollar_in_a_token_is_not_a_formula():
    fig, ax = plots.figure()
    plots.heatmap(ax, np.eye(2), rows=["$5", "a$b$"], columns=["$x^$", "$"])
    fig.canvas.draw()  # raises if matplotlib reads mathematics there
    assert [t.get_text() for t in ax.get_yticklabels()] == ["$5", "a$b$"]
    assert not any(t.get_parse_math() for t in [*ax.get_xticklabels(), *ax.get_yticklabels()])


def test_heatmap_has_the_scale_of_weights_unless_told():
    _, ax = plots.figure()
    matrix = np.array([[-2.0, 0.5], [1.0, 3.0]])
    assert plots.heatmap(ax, matrix).get_clim() == (0, 1)
    assert plots.heatmap(ax, matrix, limits=(-1, 2)).get_clim() == (-1, 2)
    assert plots.heatmap(ax, matrix, limits=None).get_clim() == (-2, 3)
    assert plots.heatmap(ax, matrix > 0).get_array().tolist() == [[0, 1], [1, 1]]


def test_weights_have_the_colours_of_the_interactive_figures():
    source = (ROOT / "utils" / "plots" / "templates" / "weights.js").read_text(encoding="utf-8")
    light = json.loads(re.search(r"SCALES = {light: (\[.*\]),$", source, re.MULTILINE)[1])
    power = float(re.search(r"\*\* (\d\.\d), ", source)[1])
    _, ax = plots.figure()
    image = plots.heatmap(ax, WEIGHTS[0])
    for weight, colour in ((0, light[0]), (0.5 ** (1 / power), light[1]), (1, light[2])):
        np.testing.assert_allclose(image.cmap(image.norm(weight))[:3], np.array(colour) / 255,
                                   atol=0.01)
    linear = plots.heatmap(ax, WEIGHTS[0], limits=(-1, 3), colours="gray")
    assert linear.norm(1.0) == 0.5


def test_heatmap_writes_numbers_dark_on_bright_and_bright_on_dark():
    _, ax = plots.figure()
    plots.heatmap(ax, np.array([[0.0, 0.234], [0.9, 1.0]]), numbers=True, colours="gray")
    written = {text.get_position(): (text.get_text(), text.get_color()) for text in ax.texts}
    assert written == {(0, 0): ("0.00", "white"), (1, 0): ("0.23", "white"),
                       (0, 1): ("0.90", "black"), (1, 1): ("1.00", "black")}
    _, ax = plots.figure()
    plots.heatmap(ax, WEIGHTS[0])
    assert not ax.texts


def test_attention_maps_share_one_scale_and_one_colour_bar():
    fig = plots.attention_maps(WEIGHTS)
    *maps, bar = fig.axes
    assert [ax.get_title() for ax in maps] == ["head 0", "head 1", "head 2"]
    for ax, matrix in zip(maps, WEIGHTS, strict=True):
        (image,) = ax.get_images()
        np.testing.assert_array_equal(image.get_array(), matrix)
        assert image.get_clim() == (0, 1)
    assert bar.get_ylabel() == "weight"
    assert bar.get_ylim() == (0, 1)


def test_attention_maps_have_queries_down_and_keys_across():
    fig = plots.attention_maps(torch.as_tensor(WEIGHTS), list("abcde"), list("tuvwxyz"),
                               titles=["one", "two", "three"], numbers=True)
    *maps, _ = fig.axes
    assert [ax.get_ylabel() for ax in maps] == ["query", "", ""]
    for ax, title in zip(maps, ["one", "two", "three"], strict=True):
        assert ax.get_title() == title
        assert ax.get_xlabel() == "key"
        assert labels(ax.yaxis) == list("abcde")
        assert labels(ax.xaxis) == list("tuvwxyz")
        assert len(ax.texts) == 35


def test_one_attention_map_has_no_title_and_figures_grow_with_their_number():
    one = plots.attention_maps(WEIGHTS[1])
    np.testing.assert_array_equal(one.axes[0].get_images()[0].get_array(), WEIGHTS[1])
    assert one.axes[0].get_title() == ""
    assert len(one.axes) == 2
    np.testing.assert_allclose(one.get_size_inches(), [3.8, 2.6])
    np.testing.assert_allclose(plots.attention_maps(WEIGHTS).get_size_inches(), [9.0, 2.6])
    wide = plots.attention_maps(WEIGHTS, width=5, height=2)
    assert wide.get_size_inches().tolist() == [5, 2]


def test_mask_grids_draw_what_may_be_attended_to_in_blue():
    keep = {"causal": masks.causal(4), "window": masks.window(3, 5, 1, align="bottom_right")}
    fig = plots.mask_grids({**keep, "list": [[True, False]]})
    assert [ax.get_title() for ax in fig.axes] == ["causal", "window", "list"]
    for ax, mask in zip(fig.axes, keep.values(), strict=False):
        (image,) = ax.get_images()
        np.testing.assert_array_equal(image.get_array(), mask)
        red, _, blue, _ = np.moveaxis(image.cmap(image.norm(image.get_array())), -1, 0)
        assert (blue - red)[mask].min() > 0.4 > (blue - red)[~mask].max()
        assert ax.xaxis.get_minorticklocs().tolist() == [n + 0.5 for n in range(mask.shape[1] - 1)]
        assert ax.yaxis.get_minorticklocs().tolist() == [n + 0.5 for n in range(mask.shape[0] - 1)]
        assert ax.get_xlabel() == "key"
    assert [ax.get_ylabel() for ax in fig.axes] == ["query", "", ""]
    (key,) = fig.legends
    assert [text.get_text() for text in key.get_texts()] == ["may attend", "masked"]
    shown = [image.cmap(image.norm(value)) for value in (1, 0)]
    np.testing.assert_allclose([patch.get_facecolor() for patch in key.get_patches()], shown)
    np.testing.assert_allclose(fig.get_size_inches(), [7.2, 2.9])
    assert plots.mask_grids(keep, width=5, height=3).get_size_inches().tolist() == [5, 3.3]


def test_mask_grids_can_stand_in_rows():
    keep = {f"causal {n}": masks.causal(n) for n in (2, 3, 4)}
    fig = plots.mask_grids(keep, columns=2, height=3, key=("yes", "no"))
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["yes", "no"]
    assert [ax.get_title() for ax in fig.axes] == list(keep)  # and no fourth, empty one
    assert [ax.get_ylabel() for ax in fig.axes] == ["query", "", "query"]
    for ax, mask in zip(fig.axes, keep.values(), strict=True):
        np.testing.assert_array_equal(ax.get_images()[0].get_array(), mask)
    np.testing.assert_allclose(fig.get_size_inches(), [4.8, 6.3])

"""Figures of attention; the interactive figures are in ``utils.plots.explore``."""

from utils.plots.figures import COLOURS, attention_maps, figure, heatmap, mask_grids
from utils.plots.rungs import ladder

__all__ = ["COLOURS", "attention_maps", "figure", "heatmap", "ladder", "mask_grids"]

"""Figures of attention; the interactive figures are in ``utils.plots.explore``."""

from utils.plots.figures import COLOURS, attention_maps, figure, heatmap, mask_grids

__all__ = ["COLOURS", "attention_maps", "figure", "heatmap", "mask_grids"]

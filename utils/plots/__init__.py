"""Figures of attention; the interactive figures are in ``utils.plots.explore``."""

from .figures import COLOURS, attention_maps, figure, heatmap, mask_grids
from .rungs import ladder

__all__ = ["COLOURS", "attention_maps", "figure", "heatmap", "ladder", "mask_grids"]

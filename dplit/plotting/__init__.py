"""Figures, explorers that play in a page, and kept results."""

from .explorers import (
    audit_explorer,
    frames,
    neighbours_explorer,
    price_explorer,
    receipt_explorer,
)
from .figures import (
    SERIES,
    label_lines,
    panels,
    plot_bound,
    plot_centers,
    plot_images,
    plot_loss_curve,
    plot_receipt,
    style,
)
from .kept import (
    Kept,
)

__all__ = [
    "Kept",
    "SERIES",
    "audit_explorer",
    "frames",
    "label_lines",
    "neighbours_explorer",
    "panels",
    "plot_bound",
    "plot_centers",
    "plot_images",
    "plot_loss_curve",
    "plot_receipt",
    "price_explorer",
    "receipt_explorer",
    "style",
]

"""Figures, explorers that play in a page, and kept results."""

from ..inputs.contracts import face
from .explorers import audit_explorer, frames, neighboring_explorer, composition_explorer, receipt_explorer
from .figures import plot_bound, plot_centers, plot_images, plot_loss_curve, plot_receipt
from .kept import Kept
from .styles import SERIES, Folded, label_lines, panels, plain_log_ticks, style

__all__ = [
    "Folded", "SERIES", "Kept", "audit_explorer", "frames", "label_lines", "neighboring_explorer",
    "panels", "plain_log_ticks", "plot_bound", "plot_centers", "plot_images", "plot_loss_curve",
    "plot_receipt", "composition_explorer", "receipt_explorer", "style",
]

face(__name__)

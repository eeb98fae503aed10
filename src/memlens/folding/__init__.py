"""Figures that add up over parts of a log, and what of its events need not be kept for them."""

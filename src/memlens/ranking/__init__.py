"""The ranks of one job side by side: how far they spread, which of them stand out and why, and which one failed first."""

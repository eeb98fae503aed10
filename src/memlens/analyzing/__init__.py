"""``memlens.analyze``: logs in, results out."""

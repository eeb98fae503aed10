"""``memlens.export``: a log as tables, as a trace and as profiles that other tools open."""

"""Watching logs that are still being written."""

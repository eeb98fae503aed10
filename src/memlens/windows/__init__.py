"""Anchors cut a log into windows."""

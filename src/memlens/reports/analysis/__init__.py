"""Screens of an analysis, part by part."""

"""Formats that users describe themselves."""

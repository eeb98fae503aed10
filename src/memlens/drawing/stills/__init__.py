"""Stills: what they show, and how Matplotlib draws it."""

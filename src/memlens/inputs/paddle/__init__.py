"""Logs of Paddle's allocators."""

"""Paddle's allocators: what their logs say of requests, and the rules by which they are served."""

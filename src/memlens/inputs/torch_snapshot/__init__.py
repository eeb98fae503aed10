"""Memory snapshots of PyTorch, and the memory history of Paddle, which has their form."""

"""PyTorch's native caching allocator."""

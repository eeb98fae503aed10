"""Recording the allocator log of a program: the program run with logging on, marks of its own, and the memory history of PyTorch."""

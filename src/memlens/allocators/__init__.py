"""Models of device allocators: what a program asked for, replayed by the rules of the allocator that served it, or of another one."""

"""Kineto traces, the JSON files that ``torch.profiler`` writes."""

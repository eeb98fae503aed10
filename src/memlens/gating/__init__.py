"""The gate: baselines, limits and verdicts.

The package is not called ``gate``, for ``memlens.gate`` is the function.
"""

"""Parquet files of events, as ``memlens export --to parquet`` writes them, read again."""

"""Logs read down to what is said of them beside others, and the workers that do it."""

"""Work on many logs, shared out to processes or machines by a :class:`concurrent.futures.Executor`."""

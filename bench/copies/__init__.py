"""Copies of a topic from its first record to its last, and the same copies with a check, a watcher or a transform."""

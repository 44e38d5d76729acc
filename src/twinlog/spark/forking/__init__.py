"""Forks Spark's Python workers from a process that has imported their modules."""

"""Forks Spark's Python workers from one process that has imported their modules."""

"""Proof that copies are equal: a task reads one partition on both sides and compares its records; it writes nothing."""

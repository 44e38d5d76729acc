"""Bytes out: what may be appended to a remote topic, and the batches that were changed for it."""

"""Copies a range of source offsets into a topic of its own: the copier's road for batches, without its positions."""

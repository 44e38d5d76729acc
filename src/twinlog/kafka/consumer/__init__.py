"""Fetches record batches: of source partitions for a copier, and of twinlog's own topics."""

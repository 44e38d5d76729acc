"""Fetches record batches: of source partitions for a copier, and of whole topics that twinlog keeps."""

"""Bytes in: fetching from the source and understanding record batches."""

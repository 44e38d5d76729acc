"""Bytes out: prepares fetched batches for a remote topic and appends them."""

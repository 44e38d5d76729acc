"""Appends record batches: in order, with sequence numbers, in transactions, and with a queue per partition."""

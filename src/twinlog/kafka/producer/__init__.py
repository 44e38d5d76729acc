"""Appends record batches: in order, with sequence numbers, in transactions, and with one queue a partition."""

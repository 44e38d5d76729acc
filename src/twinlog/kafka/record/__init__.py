"""Kafka's record format: batches, their records, compression, and new batches."""

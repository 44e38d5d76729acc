"""Kafka's record format: batches, their records, compression, and how new ones are built."""

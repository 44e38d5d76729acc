"""Kafka Connect's own transforms and predicates, as functions on rows that need neither Java nor Kafka.

Each does to a record what the class of that name does (Kafka 4.3, `connect/transforms`); those of keys and values read
JSON or text, which their converter is named for. `chain.py` makes one function of all that a flow names.
"""

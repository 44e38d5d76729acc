"""Kafka Connect's own transforms and predicates, as functions on rows that need neither Java nor Kafka.

Each function does to a record what the Java class of its name does (Kafka 4.3, `connect/transforms`). Functions of keys
and values read JSON or text, by the converter of the flow. `chain.py` joins all transforms of a flow into one function.
"""

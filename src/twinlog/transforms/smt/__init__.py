"""Kafka Connect's own transforms and predicates, as functions on rows that run free of Java and Kafka.

Each function changes a record as the Java class of its name does (Kafka 4.3, `connect/transforms`). Functions of keys
and values read JSON or text, by the converter of the flow. `chain.py` joins all transforms of a flow into a single
function.
"""

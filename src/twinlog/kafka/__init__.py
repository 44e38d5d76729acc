"""Thin clients of Kafka clusters; the only package that imports kafka-python."""

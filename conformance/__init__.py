"""Calls of Connect's REST API, asked of any worker, and what the real ones of Kafka answered.

`python -m conformance` starts workers, plays every call and compares the answers with those that are kept in `golden`.
"""

"""Rows become records of a topic: Spark tasks append them, and what they append counts once. Runs in Spark's tasks."""

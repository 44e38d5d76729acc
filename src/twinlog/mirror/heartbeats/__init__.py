"""Heartbeats of a flow, and the detection of heartbeats topics by their records."""

"""Flows that run: latency, low rates, many topics and groups, and the driver alone."""

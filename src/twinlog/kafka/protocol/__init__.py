"""Requests and responses that are written and read by hand, and what error codes mean."""

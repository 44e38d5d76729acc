"""Requests and responses that are written and read by hand, and the meaning of error codes."""

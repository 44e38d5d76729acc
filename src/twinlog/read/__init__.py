"""Bytes in: what a fetch from a source partition returned, and the records inside it."""

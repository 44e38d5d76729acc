"""A source partition while a copier copies it: its reads, its appends, and records that a transform routes."""

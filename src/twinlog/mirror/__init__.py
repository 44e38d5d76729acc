"""Keeps the shape of the target equal to the source: its topics, and later their settings and ACLs."""

"""The rules of a mirror: its topics, the offsets of its copies, its consumer groups and its heartbeats."""

"""The offset at which a copier continues a partition: its stored position, and the records behind that position."""

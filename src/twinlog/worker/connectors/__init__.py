"""MirrorMaker 2's three connectors as a worker presents them: their keys, their validation, and their values."""

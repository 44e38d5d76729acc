"""The REST API of a Connect worker: it turns requests into calls of the herder, and results into answers."""

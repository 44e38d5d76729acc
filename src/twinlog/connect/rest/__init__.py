"""The REST API of a Connect worker: requests in, what the herder answers out."""

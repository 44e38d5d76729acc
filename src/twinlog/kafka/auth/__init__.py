"""Authentication of a client."""

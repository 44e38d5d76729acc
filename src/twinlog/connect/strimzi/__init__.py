"""Keeps the connectors of a worker as Strimzi's resource asks for them, while the resource changes."""

"""The least that the file of a distributed worker has."""

from __future__ import annotations

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def distributed(brokers: str = "own:9092") -> str:
    """Such a file, of a worker at these brokers."""
    return f"""\
bootstrap.servers = {brokers}
group.id = workers
key.converter = {_BYTES}
value.converter = {_BYTES}
offset.storage.topic = positions
config.storage.topic = configs
status.storage.topic = states
"""

"""Reads the topics of members of a classic consumer group from their metadata (Kafka class ConsumerProtocol)."""

from __future__ import annotations

import struct

from twinlog.model.groups import GroupMembers
from twinlog.model.types import TopicName

_COUNT = struct.Struct(">hi")
"""The version, and the number of topics; later versions add fields at the end."""

_LENGTH = struct.Struct(">h")


def topics_read(group: GroupMembers) -> frozenset[TopicName] | None:
    """The topics that members of a group subscribe to; None if some member's topics are unknown.

    Only the coordinator knows the topics of a group of the newer protocol (KIP-848).
    """
    if group.protocol != "consumer" or not group.members:
        return None
    found: set[TopicName] = set()
    for member in group.members:
        try:
            found |= _topics(member.metadata)
        except (struct.error, UnicodeDecodeError):
            return None
    return frozenset(found) or None


def _topics(subscription: bytes) -> set[TopicName]:
    _, count = _COUNT.unpack_from(subscription)
    at = _COUNT.size
    found = set()
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(subscription, at)
        at += _LENGTH.size
        if at + length > len(subscription):
            raise struct.error("a name ends past the end")
        found.add(TopicName(subscription[at : at + length].decode()))
        at += length
    return found

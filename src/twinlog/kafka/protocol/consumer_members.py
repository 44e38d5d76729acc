"""What members of a classic consumer group read, by what they send each other (Kafka class ConsumerProtocol)."""

from __future__ import annotations

import struct

from twinlog.model.groups import GroupMembers
from twinlog.model.types import TopicName

_COUNT = struct.Struct(">hi")
"""The version, and how many topics there are; later versions add fields at the end."""

_LENGTH = struct.Struct(">h")


def topics_read(group: GroupMembers) -> frozenset[TopicName] | None:
    """The topics that members of a group subscribe to; None where that is not known of each, as of a group of the newer
    protocol (KIP-848), which only its coordinator knows."""
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

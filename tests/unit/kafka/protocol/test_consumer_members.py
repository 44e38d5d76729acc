"""What members of a group read, by their own words."""

from __future__ import annotations

import struct

import pytest

from twinlog.kafka.protocol.consumer_members import topics_read
from twinlog.model.groups import GroupMember, GroupMembers
from twinlog.model.types import TopicName


def subscription(*topics: str, version: int = 1) -> bytes:
    """With user data and owned partitions after the topics, as later versions have them."""
    names = b"".join(struct.pack(">h", len(name.encode())) + name.encode() for name in topics)
    return struct.pack(">hi", version, len(topics)) + names + struct.pack(">ii", -1, 0)


def group(*metadata: bytes, protocol: str = "consumer") -> GroupMembers:
    members = tuple(GroupMember(str(at), "c", "h", one, b"") for at, one in enumerate(metadata))
    return GroupMembers(protocol, "Stable", members)


def test_a_group_reads_what_any_of_its_members_subscribes_to() -> None:
    assert topics_read(group(subscription("a", "b"), subscription("b", "ü", version=3))) == frozenset(
        map(TopicName, ("a", "b", "ü"))
    )


@pytest.mark.parametrize(
    "seen",
    [
        group(),
        group(b""),
        group(subscription("a"), b"\0\1\0\0\0\2\0\1a"),
        group(b"\0\1\0\0\0\1\0\5a"),
        group(subscription()),
        group(subscription("a"), protocol="connect"),
    ],
)
def test_what_is_not_known_of_each_member_is_not_known(seen: GroupMembers) -> None:
    assert topics_read(seen) is None

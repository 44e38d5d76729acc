"""Consumer groups as values: what a cluster reports of one, and what one has committed."""

from __future__ import annotations

from typing import NamedTuple

from twinlog.model.types import GroupId, TopicName, TopicPartition

TWINLOG_PROTOCOL = "twinlog"
"""The group protocol of twinlog's own groups, by which its processes elect who runs a flow."""

CONNECT_PROTOCOL = "connect"
"""The group protocol of Kafka Connect's workers, and so of MirrorMaker 2."""

GROUPS_TOPIC = TopicName("__consumer_offsets")
"""Where brokers keep groups: who leads a group's partition coordinates it."""


class GroupListing(NamedTuple):
    """A group as its coordinator lists it.

    `protocol` is "consumer" where consumers share partitions, "" where offsets were only ever committed from outside,
    and names another program's own protocol otherwise. `kind` is "classic", "consumer" (KIP-848), "share" or "streams",
    and "" before Kafka 3.7. `state` is "Empty" for a group without members.
    """

    name: GroupId
    protocol: str
    state: str
    kind: str = ""

    @property
    def commits(self) -> bool:
        """Whether its members commit offsets as consumers do; MirrorMaker 2 takes no other groups."""
        return self.protocol in ("consumer", "") and self.kind.lower() in ("", "classic", "consumer")

    @property
    def of_copiers(self) -> bool:
        """Whether its members are processes of twinlog or workers of Kafka Connect, and no consumers."""
        return self.protocol in (TWINLOG_PROTOCOL, CONNECT_PROTOCOL)

    @property
    def empty(self) -> bool:
        """Whether the coordinator reports that it has no members."""
        return self.state == "Empty"


class GroupMember(NamedTuple):
    """A member as its coordinator describes it; metadata and assignment are bytes of the group's protocol."""

    member_id: str
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


class GroupMembers(NamedTuple):
    """A group of the classic protocol with its members; `state` is "Dead" where there is no such group."""

    protocol: str
    state: str
    members: tuple[GroupMember, ...]


class CommittedOffset(NamedTuple):
    """What a group commits for a partition: the next offset to read, and metadata of its own."""

    offset: int
    metadata: str = ""


GroupOffsets = dict[TopicPartition, CommittedOffset]
"""What one group has committed, by partition."""

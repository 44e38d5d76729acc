"""Consumer groups as values: the report of a cluster about a group, and the group's committed offsets."""

from __future__ import annotations

from typing import NamedTuple

from twinlog.model.types import GroupId, TopicName, TopicPartition

TWINLOG_PROTOCOL = "twinlog"
"""The group protocol of twinlog's own groups, by which its processes elect the runner of a flow."""


def client_id_of(process: str) -> str:
    """The client id of a process, `host-pid`, as a member of the groups of its flows."""
    return f"{TWINLOG_PROTOCOL}-{process}"


CONNECT_PROTOCOL = "connect"
"""The group protocol of Kafka Connect's workers, and so of MirrorMaker 2."""

GROUPS_TOPIC = TopicName("__consumer_offsets")
"""The topic in which brokers keep groups: the leader of a group's partition coordinates the group."""

MEMBERLESS = frozenset({"", "Empty", "Dead"})
"""The states of groups that lack members (Kafka class ConsumerGroupState); an unlisted group has an empty state."""


class GroupListing(NamedTuple):
    """A group in the list of its coordinator.

    `protocol` is "consumer" for consumers that share partitions, "" if offsets were only ever committed from outside,
    and otherwise the name of another program's own protocol. `kind` is "classic", "consumer" (KIP-848), "share" or
    "streams", and "" before Kafka 3.7. `state` is "Empty" for a memberless group.
    """

    name: GroupId
    protocol: str
    state: str
    kind: str = ""

    @property
    def commits(self) -> bool:
        """Whether its members commit offsets as consumers do; MirrorMaker 2 takes only these groups."""
        return self.protocol in ("consumer", "") and self.kind.lower() in ("", "classic", "consumer")

    @property
    def of_copiers(self) -> bool:
        """Whether its members are processes of twinlog or workers of Kafka Connect in place of consumers."""
        return self.protocol in (TWINLOG_PROTOCOL, CONNECT_PROTOCOL)

    @property
    def empty(self) -> bool:
        """Whether the coordinator reports an empty list of members."""
        return self.state == "Empty"


class GroupMember(NamedTuple):
    """A member in its coordinator's report; metadata and assignment are bytes of the group's protocol."""

    member_id: str
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


class GroupMembers(NamedTuple):
    """A group of the classic protocol with its members; `state` is "Dead" for a missing group."""

    protocol: str
    state: str
    members: tuple[GroupMember, ...]


class CommittedOffset(NamedTuple):
    """A group's commit for a partition: the next offset to read, and metadata of the group's own."""

    offset: int
    metadata: str = ""


GroupOffsets = dict[TopicPartition, CommittedOffset]
"""The committed offsets of a group, by partition."""

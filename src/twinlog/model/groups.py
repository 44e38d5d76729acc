"""Consumer groups as values: what a cluster says of one, and what one has committed."""

from __future__ import annotations

from typing import NamedTuple

from twinlog.model.types import GroupId, TopicPartition

TWINLOG_PROTOCOL = "twinlog"
"""What the groups speak in which twinlog's processes find out who runs a flow."""

CONNECT_PROTOCOL = "connect"
"""The same of workers of Kafka Connect, and so of MirrorMaker 2."""


class Group(NamedTuple):
    """A group as its coordinator lists it.

    `protocol` is "consumer" where consumers share partitions, "" where offsets were only ever committed from outside,
    and names another program's own protocol otherwise. `kind` is "classic", "consumer" (KIP-848), "share" or "streams",
    and "" before Kafka 3.7. `state` is "Empty" where nobody is a member.
    """

    name: GroupId
    protocol: str
    state: str
    kind: str = ""

    @property
    def commits(self) -> bool:
        """Whether it is one of those whose members commit offsets as consumers do; MirrorMaker 2 takes no others."""
        return self.protocol in ("consumer", "") and self.kind.lower() in ("", "classic", "consumer")

    @property
    def of_copiers(self) -> bool:
        """Whether its members are processes of twinlog or workers of Kafka Connect, which nobody thinks a consumer."""
        return self.protocol in (TWINLOG_PROTOCOL, CONNECT_PROTOCOL)

    @property
    def empty(self) -> bool:
        """Whether it is proven that it has no members."""
        return self.state == "Empty"


class CommittedOffset(NamedTuple):
    """What a group commits for a partition: the next offset to read, and whatever it wants to remember with it."""

    offset: int
    metadata: str = ""


GroupOffsets = dict[TopicPartition, CommittedOffset]
"""What one group has committed, by partition."""

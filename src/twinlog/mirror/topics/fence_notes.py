"""The notes of fences in a flow's control topic: the ACLs of each fence, and the topics that a switchover has opened.

A flow with a group of its own runs beside other processes of the same flow, and each notes the ACLs of its own topics.
Any program with WRITE may append a malformed note: all readers leave it out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from twinlog.clock import LONG_AGO
from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import LastRecords
from twinlog.mirror.topics.internal_topics import CompactedTopic, control
from twinlog.model.acls import TopicAcl, acls_data, acls_of
from twinlog.model.compact_json import MALFORMED, ascii_json, object_of, utf8_json
from twinlog.model.topic_names import SWITCHOVERS, is_control_topic
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings

FENCED = "fenced"
"""The step of a switchover's journal that has its fence."""

_ACLS, _OPENED = "fence", "fence opened"
_OF_SWITCHOVER = utf8_json(["", FENCED, ""])[3:]
_ANY_FENCE = ascii_json([_ACLS]).removesuffix(b"]") + b","


@dataclass(frozen=True, slots=True)
class FenceNote:
    """The ACLs of the fences of a flow, those of this process among them, and the topics that are open to producers."""

    acls: frozenset[TopicAcl] = frozenset()
    own: tuple[TopicAcl, ...] = ()
    opened: frozenset[TopicName] = frozenset()


class FenceOwner(NamedTuple):
    """The flow that has raised a fence, and the group of its processes; "" if the note lacks it."""

    flow: str
    group: str


def decode_fence(key: bytes, value: bytes | None) -> tuple[FenceOwner, tuple[TopicAcl, ...]] | None:
    """The owner and the ACLs of a fence by a record of a control topic.

    None for a malformed record, and for each other record.
    """
    if not key.startswith(_ANY_FENCE):
        return None
    fields = object_of(value)
    with suppress(*MALFORMED):
        flow, group = json.loads(key)[1], fields.get("group", "")
        if isinstance(flow, str) and isinstance(group, str):
            return FenceOwner(flow, group), _noted_acls(fields, "acls")
    return None


def _noted_acls(fields: Mapping[str, Any], name: str) -> tuple[TopicAcl, ...]:
    """The ACLs in a field of a note, in their order; empty if they are malformed."""
    try:
        return tuple(dict.fromkeys(acls_of(fields.get(name, []))))
    except MALFORMED:
        return ()


class FenceNotes:
    """Reads and writes the notes of a flow's fences. Used by a single thread at a time.

    All methods raise ClusterError if the target is silent, and RefusedError for a missing right.
    """

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._target = target
        topic = control(settings)
        self._topic = CompactedTopic(settings.name, target, topic, "ACLs of the flow")
        self._reader = TopicReader(target, topic.name, optional=True)
        # The process of the flow writes a record for each topic, a switchover the other record.
        self._of_flow = ascii_json([_ACLS, settings.name, ""]).removesuffix(b'""]')
        self._group = settings.group_id
        self._of_group = b"]" if not settings.has_own_group else b"," + ascii_json(settings.group_id) + b"]"
        self._opened = ascii_json([_OPENED, settings.name])
        self._last: LastRecords = {}

    def read(self) -> FenceNote:
        """The notes now."""
        self._reader.read_last(self._last)
        self._last = {
            key: kept for key, kept in self._last.items() if key == self._opened or key.startswith(self._of_flow)
        }
        acls: set[TopicAcl] = set()
        own: list[TopicAcl] = []
        opened: frozenset[TopicName] = frozenset()
        for key, kept in self._last.items():
            if key == self._opened:
                with suppress(*MALFORMED):
                    opened = frozenset(object_of(kept.value()).get("topics", []))
            elif noted := decode_fence(key, kept.value()):
                acls.update(noted[1])
                own += [acl for acl in noted[1] if key == self._key(acl.topic)]
        return FenceNote(frozenset(acls), tuple(own), opened)

    def write_acls(self, acls: Iterable[TopicAcl], topics: Collection[TopicName]) -> None:
        """Note the ACLs of this process for topics, a record for each topic: a record has at most a megabyte."""
        found: dict[TopicName, list[TopicAcl]] = {topic: [] for topic in sorted(topics)}
        for acl in acls:
            if acl.topic in found:
                found[acl.topic].append(acl)
        self._write(
            {self._key(topic): {"acls": acls_data(some), "group": self._group} for topic, some in found.items()}
        )

    def write_opened(self, topics: Collection[TopicName]) -> None:
        """Note all topics that are open to producers."""
        self._write({self._opened: {"topics": sorted(topics)}})

    def _key(self, topic: TopicName) -> bytes:
        return self._of_flow + ascii_json(topic) + self._of_group

    def _write(self, notes: Mapping[bytes, Mapping[str, Any]]) -> None:
        if not notes:
            return
        self._topic.ensure(look=True)
        self._topic.append([(key, ascii_json(value)) for key, value in notes.items()])


def fences_on(cluster: ClusterAdmin) -> set[TopicAcl]:
    """The ACLs of the fences on a cluster: of all flows to it, and of switchovers.

    Raises ClusterError if the cluster is silent, RefusedError if the login lacks READ on the control topic of a flow,
    or on the journal of switchovers.
    """
    notes = AllFenceNotes(cluster)
    found = {acl for acls in notes.read().values() for acl in acls}
    if notes.refusal is not None:
        raise notes.refusal
    last: LastRecords = {}
    if notes.lists_switchovers:
        TopicReader(cluster, SWITCHOVERS, optional=True).read_last(last)
    for key, kept in last.items():
        if key.endswith(_OF_SWITCHOVER):
            found.update(_noted_acls(object_of(kept.value()), "remove"))
    return found


LIST_S = 600.0
"""The seconds between two listings of a cluster's topics, of which a cluster may have thousands."""


class AllFenceNotes:
    """The notes of the fences of all flows to a cluster. Used by a single thread at a time.

    A control topic that is created later is found after up to `LIST_S`.
    """

    def __init__(self, cluster: ClusterAdmin) -> None:
        self._cluster = cluster
        self._listed: list[TopicName] = []
        self._list_at = LONG_AGO
        self._topics: dict[TopicName, tuple[TopicReader, LastRecords]] = {}
        self.refusal: RefusedError | None = None
        """The missing right on a control topic, at the last `read`."""
        self.lists_switchovers = False
        """Whether the cluster has a journal of switchovers that the login may see."""

    def read(self) -> dict[FenceOwner, set[TopicAcl]]:
        """The ACLs of each fence now. Notes that are hidden from the login are left out. Raises ClusterError."""
        found: dict[FenceOwner, set[TopicAcl]] = {}
        self.refusal = None
        now = self._cluster.clock.monotonic()
        if now >= self._list_at:
            topics = self._cluster.topics()
            self._listed = [topic for topic in topics if is_control_topic(topic)]
            self.lists_switchovers = SWITCHOVERS in topics
            self._list_at = now + LIST_S
        for topic in self._listed:
            if topic not in self._topics:
                self._topics[topic] = TopicReader(self._cluster, topic, optional=True), {}
            reader, last = self._topics[topic]
            try:
                reader.read_last(last)
            except RefusedError as error:
                self.refusal = error
            for key in [key for key in last if not key.startswith(_ANY_FENCE)]:
                del last[key]
            for key, kept in last.items():
                if noted := decode_fence(key, kept.value()):
                    found.setdefault(noted[0], set()).update(noted[1])
        return found

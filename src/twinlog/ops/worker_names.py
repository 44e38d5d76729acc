"""Finds the names of a worker's group and topics on its cluster, for a command that lacks the worker's file.

A topic of a worker is known by the keys of its records (Kafka classes KafkaConfigBackingStore, KafkaOffsetBackingStore
and KafkaStatusBackingStore), the group by the addresses of its members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.admin.topics import describe_configs
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import LastRecords
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.model.groups import CONNECT_PROTOCOL
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, TopicName

TAILS = (64, 2_000, None)
"""How many records before the end of each partition are searched for a record of a connector."""

_OF_OTHERS = re.compile(r"mm2-(offset-syncs|offsets|configs|status)\..*\.internal|.*[.-]changelog")
"""Topics that no Connect worker has for its state: of a dedicated MirrorMaker 2, and of Kafka Streams."""

BY_FILE = "give the worker's file before --url, for example connect-distributed.properties"


@dataclass(frozen=True, slots=True)
class WorkerNames:
    """The names of a worker's group and of its topics; None for a name that is not found."""

    group: str | None
    config: str | None
    offset: str | None
    status: str | None

    def missing(self, url: str) -> str:
        """A sentence about the names that are not found, with the way out."""
        named = {"group": self.group, "topic of configurations": self.config, "topic of states": self.status}
        lacking = ", ".join(what for what, name in named.items() if name is None)
        return (
            f"the worker at {url} has names that its target lacks or hides from this login: {lacking}; the result "
            f"leaves them out; {BY_FILE}"
        )


def find_names(
    admin: ClusterAdmin, connectors: Collection[str], workers: Collection[str], *, positions: bool = True
) -> WorkerNames:
    """The names of the worker that has `connectors` on the cluster of `admin`; only reads.

    `workers` are the addresses (host:port) of its group. The topic with the newest record of a connector counts. Raises
    ClusterError when the cluster fails to answer, and with `positions` when the topic of positions is missing.
    """
    admin.connect(COMMAND_CONNECT_S)
    found = _NamesFinder(admin, connectors)
    offset = found.topic_of("offset", found.is_position)
    if positions and offset is None:
        raise ClusterError(
            f"cluster {admin.alias}: no topic with 'offset' in its name has positions of connector "
            f"{listed(sorted(connectors))}{found.why()}",
            way_out=f"{BY_FILE}; a standalone worker keeps its positions in a file of its host",
            message_id="TW-REST-09",
        )
    return WorkerNames(
        _group_of(admin, workers),
        found.topic_of("config", found.is_config),
        offset,
        found.topic_of("status", found.is_status),
    )


class _NamesFinder:
    """Searches topics of a cluster for records of some connectors."""

    def __init__(self, admin: ClusterAdmin, connectors: Collection[str]) -> None:
        self._admin = admin
        self._connectors = connectors
        self._keys: Mapping[str, frozenset[bytes]] = {
            prefix: frozenset(f"{prefix}{name}".encode() for name in connectors)
            for prefix in ("connector-", "status-connector-")
        }
        self._topics = sorted(
            name for name, topic in admin.topics().items() if not topic.internal and not _OF_OTHERS.fullmatch(name)
        )
        self._refused: list[str] = []

    def is_position(self, key: bytes) -> bool:
        """Whether a record has a position of the connectors: its key is `["NAME", {...}]`."""
        if not key.startswith(b"["):
            return False
        try:
            found = json.loads(key)
        except ValueError:
            return False
        return bool(found) and found[0] in self._connectors

    def is_config(self, key: bytes) -> bool:
        """Whether a record has the configuration of a connector."""
        return key in self._keys["connector-"]

    def is_status(self, key: bytes) -> bool:
        """Whether a record has the state of a connector."""
        return key in self._keys["status-connector-"]

    def topic_of(self, word: str, fits: Callable[[bytes], bool]) -> str | None:
        """The topic with `word` in its name that has the newest record that fits."""
        newest: dict[str, int] = {}
        for name in self._compacted([name for name in self._topics if word in name.lower()]):
            try:
                at_ms = self._newest(name, fits)
            except RefusedError:
                self._refused.append(name)
                continue
            if at_ms is not None:
                newest[name] = at_ms
        return max(newest, key=lambda name: newest[name], default=None)

    def why(self) -> str:
        """The topics that this login may not read, in words."""
        return f", and this login lacks READ on topic {listed(self._refused)}" if self._refused else ""

    def _compacted(self, names: Sequence[TopicName]) -> list[TopicName]:
        """The topics that are compacted, or whose settings are hidden: others can be large."""
        known, _ = self._admin.call(describe_configs, self._admin.client, names) if names else ({}, {})
        policies = {
            name: entry.value or "" for name, entries in known.items() for entry in entries if _is_policy(entry.name)
        }
        return [name for name in names if "compact" in policies.get(name, "compact")]

    def _newest(self, topic: TopicName, fits: Callable[[bytes], bool]) -> int | None:
        """The time of the newest record that fits, in ms; None if there is none. Raises RefusedError."""
        for last in TAILS:
            records: LastRecords = {}
            TopicReader(self._admin, topic, optional=True, last=last).read_last(records)
            times = [record.timestamp for key, record in records.items() if fits(key)]
            if times:
                return max(times)
        return None


def _is_policy(name: str) -> bool:
    return name == "cleanup.policy"


def _group_of(admin: ClusterAdmin, workers: Collection[str]) -> str | None:
    """The group of workers, of Kafka or of twinlog, that has a member at an address of `workers`; the only group of
    Kafka's workers if no address fits."""
    groups = GroupAdmin(admin.client)
    listed = admin.call(groups.listed)
    addresses = [address.encode() for address in workers]
    for name in sorted(name for name, one in listed.items() if one.of_copiers):
        try:
            members = admin.call(groups.described, GroupId(name)).members
        except RefusedError:
            continue
        if any(address in member.metadata for member in members for address in addresses):
            return name
    of_kafka = [name for name, one in listed.items() if one.protocol == CONNECT_PROTOCOL]
    return of_kafka[0] if len(of_kafka) == 1 else None

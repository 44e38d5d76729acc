"""The metadata of a process that shares a flow, and the assignment for all these processes: the runner of the flow.

The leader of the flow's group reads the metadata of every member, and sends the assignment to all members. The metadata
have a short form of the flow's settings, to find out whether two processes have the same: each setting has the name of
its key and a hash of its value. Credentials, racks and the other clusters of the file are left out: hosts may have
their own, and a hash of a short password can be guessed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from twinlog.model.compact_json import ascii_json, object_of
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import CustomClass, FlowSettings
from twinlog.settings.transform import FailedRecordSettings
from twinlog.settings.written import key_of
from twinlog.worker.placement.processes import choose_process

Fingerprint = Mapping[str, str]
"""Hash of a value by the name of its key."""

_LEFT_OUT = frozenset(
    {
        *("source", "target", "aliases", "connector_name", "kind", "worker_group_id", "client_id", "sasl_username"),
        "client_rack",
    }
)

_NO_KEYS = frozenset({("consumer", "retries"), ("producer", "default_api_timeout_ms")})
"""Fields of a client that are without a key in its role."""

_OF_THE_CLUSTER = ("bootstrap.", "security.", "sasl.", "ssl.")
"""Keys of a client that are written for the whole cluster."""


def fingerprint(settings: FlowSettings) -> dict[str, str]:
    """The flow's settings by key, each as the first eight digits of a hash of its value.

    Keys of clients carry their prefix, as in `east.consumer.isolation.level`.
    """
    values: dict[str, list[str]] = {}
    for key, value in _flow(settings):
        values.setdefault(key, []).append(repr(value))
    return {key: hashlib.sha256("\n".join(found).encode()).hexdigest()[:8] for key, found in values.items()}


def differing(one: Fingerprint, other: Fingerprint) -> tuple[str, ...]:
    """The keys in which two processes differ, sorted; a key that a single process has counts as well."""
    return tuple(sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key)))


def _flow(settings: FlowSettings) -> Iterator[tuple[str, Any]]:
    roles = {
        "consumer": (settings.source, "consumer"),
        "producer": (settings.target, "producer"),
        "source_admin": (settings.source, "admin"),
        "target_admin": (settings.target, "admin"),
    }
    for own in _read_fields(settings):
        value = getattr(settings, own.name)
        if isinstance(value, ConsumerSettings | ProducerSettings | AdminSettings):
            yield from _client(value, *roles[own.name])
        elif type(value) is FailedRecordSettings:
            for one in fields(FailedRecordSettings):
                yield key_of(FailedRecordSettings, one.name), getattr(value, one.name)
        else:
            # The line that names the class may well differ.
            yield key_of(FlowSettings, own.name), value.path if isinstance(value, CustomClass) else value


def _client(settings: Any, alias: str, role: str) -> Iterator[tuple[str, Any]]:
    for own in _read_fields(settings):
        value = getattr(settings, own.name)
        if isinstance(value, ClientSettings):
            yield from _client(value, alias, role)
            continue
        if (role, own.name) in _NO_KEYS:
            continue
        key = key_of(type(settings), own.name)
        yield f"{alias}.{key}" if key.startswith(_OF_THE_CLUSTER) else f"{alias}.{role}.{key}", value


def _read_fields(settings: Any) -> list[Field[Any]]:
    """Fields that may be shown and compared; secret fields are also absent from the repr."""
    return [own for own in fields(settings) if own.repr and own.name not in _LEFT_OUT]


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """The time for which a member runs a flow.

    `number` is the number of the group's generation that appointed the member, `runner` its id in that generation,
    `since` its start in seconds of Unix time.
    """

    number: int
    runner: str
    since: float


@dataclass(frozen=True, slots=True)
class Member:
    """A process as a member of its flow's group; `name` is `host-pid`.

    With `ready` it could begin at once. With `packs` flows are kept together instead of spread. With `until` it ends
    when the flow has caught up. `term` is the last term that it knows. With `over`, it was the runner of that term and
    has released all partitions; `heir` is the process to which it leaves the flow.
    """

    name: str
    settings: Fingerprint = field(default_factory=dict, repr=False)
    ready: bool = False
    packs: bool = False
    until: bool = False
    term: LeaderTerm | None = None
    over: bool = False
    heir: str | None = None

    def encode(self) -> bytes:
        """The metadata of a JoinGroup request: a JSON object."""
        return ascii_json(
            {
                "name": self.name,
                "settings": dict(self.settings),
                "ready": self.ready,
                "packs": self.packs,
                "until": self.until,
                "term": _term_fields(self.term),
                "over": self.over,
                "heir": self.heir,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Member:
        """Decode metadata, perhaps of another version: missing fields count as unknown."""
        fields = object_of(data)
        heir = fields.get("heir")
        return cls(
            name=str(fields.get("name", "unknown")),
            settings=_strings(fields.get("settings")),
            ready=fields.get("ready") is True,
            packs=fields.get("packs") is True,
            until=fields.get("until") is True,
            term=_term(fields.get("term")),
            over=fields.get("over") is True,
            heir=str(heir) if heir else None,
        )


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """A member as the other members see it; `differs` are the keys whose values differ from the runner's settings."""

    name: str
    ready: bool
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leadership:
    """The runner of a flow, its term, and all members by their ids."""

    leader: Member
    term: LeaderTerm
    mates: Mapping[str, MemberInfo] = field(default_factory=dict, compare=False, repr=False)

    def encode(self) -> bytes:
        """The assignment of a SyncGroup request, the same for each member: a JSON object."""
        return ascii_json(
            {
                "name": self.leader.name,
                "settings": dict(self.leader.settings),
                "until": self.leader.until,
                "term": _term_fields(self.term),
                "mates": {member: [mate.name, mate.ready, mate.differs] for member, mate in self.mates.items()},
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Leadership:
        """Decode an assignment, perhaps of another version: missing fields count as unknown."""
        fields = object_of(data)
        mates = fields.get("mates")
        leader = Member(
            str(fields.get("name", "unknown")), _strings(fields.get("settings")), until=fields.get("until") is True
        )
        return cls(
            leader,
            _term(fields.get("term")) or LeaderTerm(0, "", 0.0),
            {str(member): _mate(mate) for member, mate in mates.items()} if isinstance(mates, dict) else {},
        )

    def __str__(self) -> str:
        if not self.term.since:
            return self.leader.name
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.term.since))
        return f"{self.leader.name} (since {since})"


def appoint(flow: str, number: int, members: Mapping[str, Member], counts: Mapping[str, int], now: float) -> Leadership:
    """The leadership of a flow from the group's generation `number`, which begins `now` (seconds since 1970).

    The present runner stays as long as it is a member. A new runner is appointed only if the runner has left, or if its
    metadata ends its term. Metadata from before its appointment are ignored, because a request may come late. `counts`
    are flows by process. Among ready processes, the election prefers processes that end when the flow has caught up.
    Beside an endless runner they would have to fail, because the end of the lag would be hidden from them.
    """
    known = (member.term for member in members.values() if member.term is not None)
    term = max((term for term in known if term.runner in members), key=lambda term: term.number, default=None)
    if term is None or (members[term.runner].over and members[term.runner].term == term):
        heir = None if term is None else members[term.runner].heir
        ready = {id_: one for id_, one in members.items() if one.ready} or members
        ends = {id_: one for id_, one in ready.items() if one.until} or ready
        wanted = {id_: one for id_, one in ready.items() if one.name == heir} or ends
        pack = any(one.packs for one in members.values())
        name = choose_process(flow, {one.name for one in wanted.values()}, counts, pack=pack)
        runner = min(id_ for id_, one in wanted.items() if one.name == name)
        term = LeaderTerm(number, runner, now)
    leader = members[term.runner]
    mates = {
        id_: MemberInfo(one.name, one.ready, differing(leader.settings, one.settings) if one.settings else ())
        for id_, one in members.items()
    }
    return Leadership(Member(leader.name, leader.settings, until=leader.until), term, mates)


def _term_fields(term: LeaderTerm | None) -> object:
    return None if term is None else [term.number, term.runner, term.since]


def _term(fields: object) -> LeaderTerm | None:
    match fields:
        case [int(number), str(runner), int() | float() as since]:
            return LeaderTerm(number, runner, float(since))
    return None


def _mate(fields: object) -> MemberInfo:
    match fields:
        case [str(name), bool(ready), list(differs)]:
            return MemberInfo(name, ready, tuple(str(key) for key in differs))
    return MemberInfo("unknown", False)


def _strings(fields: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in fields.items()} if isinstance(fields, dict) else {}

"""The metadata of a process that shares a flow, and the assignment for all these processes: the runner of the flow.

The leader of the flow's group reads the metadata of every member, and sends the assignment to all members.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.model.compact_json import ascii_json, object_of
from twinlog.worker.election.fingerprint import Fingerprint, differing
from twinlog.worker.placement.processes import choose_process


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

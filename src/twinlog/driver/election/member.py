"""How a process presents itself to the others that share a flow, and what all of them are told: who runs it.

The leader of the flow's group reads the first of every member, and gives the second to all of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.driver.election.fingerprint import Fingerprint, differing
from twinlog.plan.spread import choose


@dataclass(frozen=True, slots=True)
class Term:
    """The time for which one member runs a flow.

    `number` is that of the group's generation in which it was appointed, `runner` its id there, `since` seconds of Unix
    time.
    """

    number: int
    runner: str
    since: float


@dataclass(frozen=True, slots=True)
class Member:
    """A process as a member of its flow's group; `name` is `host-pid`.

    `ready` says that it could begin at once, `packs` that flows shall rather be together than spread, `until` that it
    ends when the flow has caught up. `term` is the last one of which it heard. When `over`, it was the runner of that
    term and has let everything go; `heir` is whom it leaves the flow to.
    """

    name: str
    settings: Fingerprint = field(default_factory=dict, repr=False)
    ready: bool = False
    packs: bool = False
    until: bool = False
    term: Term | None = None
    over: bool = False
    heir: str | None = None

    def encode(self) -> bytes:
        """As metadata of a JoinGroup request: a JSON object."""
        return _dump(
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
        """Of another version perhaps: what is missing counts as unknown."""
        told = _load(data)
        heir = told.get("heir")
        return cls(
            name=str(told.get("name", "unknown")),
            settings=_strings(told.get("settings")),
            ready=told.get("ready") is True,
            packs=told.get("packs") is True,
            until=told.get("until") is True,
            term=_term(told.get("term")),
            over=told.get("over") is True,
            heir=str(heir) if heir else None,
        )


@dataclass(frozen=True, slots=True)
class Mate:
    """A member as the others are told of it; `differs` are the keys in which it was given other settings."""

    name: str
    ready: bool
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who runs a flow, for which term, and all members by their ids."""

    leader: Member
    term: Term
    mates: Mapping[str, Mate] = field(default_factory=dict, compare=False, repr=False)

    def encode(self) -> bytes:
        """As assignment of a SyncGroup request, the same for each member: a JSON object."""
        return _dump(
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
        """Of another version perhaps: what is missing counts as unknown."""
        told = _load(data)
        mates = told.get("mates")
        leader = Member(
            str(told.get("name", "unknown")), _strings(told.get("settings")), until=told.get("until") is True
        )
        return cls(
            leader,
            _term(told.get("term")) or Term(0, "", 0.0),
            {str(member): _mate(mate) for member, mate in mates.items()} if isinstance(mates, dict) else {},
        )

    def __str__(self) -> str:
        if not self.term.since:
            return self.leader.name
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.term.since))
        return f"{self.leader.name} (since {since})"


def appoint(flow: str, number: int, members: Mapping[str, Member], counts: Mapping[str, int], now: float) -> Leadership:
    """Who runs a flow from the group's generation `number` on, which begins `now` (seconds since 1970).

    That is who runs it already, as long as it is a member. Another one is appointed only when the runner has gone, or
    has said itself that its term is over. What it said before it was appointed says nothing about that: a request may
    come late. `counts` are flows by process. Of those that are ready, processes that end when the flow has caught up
    come first: beside one that never ends they would have to fail, for they could not see when it has.
    """
    known = (member.term for member in members.values() if member.term is not None)
    term = max((term for term in known if term.runner in members), key=lambda term: term.number, default=None)
    if term is None or (members[term.runner].over and members[term.runner].term == term):
        heir = None if term is None else members[term.runner].heir
        ready = {member: told for member, told in members.items() if told.ready} or members
        ends = {member: told for member, told in ready.items() if told.until} or ready
        wanted = {member: told for member, told in ready.items() if told.name == heir} or ends
        pack = any(told.packs for told in members.values())
        name = choose(flow, {told.name for told in wanted.values()}, counts, pack=pack)
        runner = min(member for member, told in wanted.items() if told.name == name)
        term = Term(number, runner, now)
    leader = members[term.runner]
    mates = {
        member: Mate(told.name, told.ready, differing(leader.settings, told.settings) if told.settings else ())
        for member, told in members.items()
    }
    return Leadership(Member(leader.name, leader.settings, until=leader.until), term, mates)


def _term_fields(term: Term | None) -> object:
    return None if term is None else [term.number, term.runner, term.since]


def _term(told: object) -> Term | None:
    match told:
        case [int(number), str(runner), int() | float() as since]:
            return Term(number, runner, float(since))
    return None


def _mate(told: object) -> Mate:
    match told:
        case [str(name), bool(ready), list(differs)]:
            return Mate(name, ready, tuple(str(key) for key in differs))
    return Mate("unknown", False)


def _strings(told: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in told.items()} if isinstance(told, dict) else {}


def _dump(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _load(data: bytes) -> dict[str, object]:
    try:
        told = json.loads(data or b"{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}

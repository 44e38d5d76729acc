"""The coordinator of groups in a virtual cluster, for the classic protocol (Kafka class ClassicGroup).

A group outlives its coordinator as it was when it was stable last, which is what brokers have in their log.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from twinlog.kafka.protocol.error_codes import Code

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.admin import groups
    from kafka.protocol.consumer import group

SHORTEST_SESSION_S = 6.0

Answer = Callable[[Any], None]


class Timers(Protocol):
    """The time of a virtual cluster."""

    def now(self) -> float:
        """Monotonic seconds."""

    def later(self, seconds: float, step: Callable[[], None]) -> None:
        """Call `step` in so many seconds."""


@dataclass(slots=True)
class Member:
    """A member; `joins` and `syncs` are what it waits for."""

    client: str
    session_s: float
    rebalance_s: float
    metadata: dict[str, bytes]
    seen: float
    joins: Answer | None = None
    syncs: Answer | None = None


@dataclass(slots=True)
class VirtualGroup:
    """`state` is one of Kafka's: Empty, PreparingRebalance, CompletingRebalance, Stable."""

    state: str = "Empty"
    kind: str = ""
    generation: int = 0
    leader: str = ""
    protocol: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    assigned: dict[str, bytes] = field(default_factory=dict)
    round: int = 0
    """Counts rebalances, for their time-outs."""


class VirtualGroups:
    """All groups are coordinated by the broker `node`."""

    def __init__(self, timers: Timers, node: int) -> None:
        self.node = node
        self.groups: dict[str, VirtualGroup] = {}
        self.shortest_session_s = SHORTEST_SESSION_S
        self._timers = timers
        self._stored: dict[str, VirtualGroup] = {}
        self._known: set[str] = set()
        """Member ids that were given out and not used yet."""
        self._given = 0

    def move(self, node: int) -> None:
        """Another broker coordinates, with what the last one stored; nobody who waited is answered by that one."""
        self.node = node
        self._known.clear()
        now = self._timers.now()
        self.groups = {name: copy.copy(stored) for name, stored in self._stored.items()}
        for name, one in self.groups.items():
            one.members = {who: _at_rest(member, now) for who, member in one.members.items()}
            one.round += 1000
            for who in one.members:
                self._watch(name, who)

    def forget(self, name: str, member: str) -> None:
        """A member is removed, as by an administrator."""
        self._remove(name, member)

    # Requests.

    def join(self, node: int, request: Any, code: int, client: str, answer: Answer) -> None:
        def refuse(error: int, member: str = request.member_id) -> None:
            answer(_not_joined(error, member))

        name, member = request.group_id, request.member_id
        one = self.groups.setdefault(name, VirtualGroup())
        metadata = {protocol.name: bytes(protocol.metadata) for protocol in request.protocols}
        if code or node != self.node:
            refuse(code or Code.NOT_COORDINATOR)
        elif request.session_timeout_ms < self.shortest_session_s * 1000:
            refuse(Code.INVALID_SESSION_TIMEOUT)
        elif one.members and not (
            one.kind == request.protocol_type
            and all(metadata.keys() & other.metadata for other in one.members.values())
        ):
            refuse(Code.INCONSISTENT_GROUP_PROTOCOL)
        elif not member:
            self._given += 1
            self._known.add(f"{client}-{self._given}")
            refuse(Code.MEMBER_ID_REQUIRED, f"{client}-{self._given}")
        elif member not in one.members and member not in self._known:
            refuse(Code.UNKNOWN_MEMBER_ID)
        else:
            self._known.discard(member)
            known = one.members.get(member)
            one.kind = request.protocol_type
            one.members[member] = Member(
                client,
                request.session_timeout_ms / 1000,
                request.rebalance_timeout_ms / 1000,
                metadata,
                self._timers.now(),
                joins=answer,
            )
            as_before = known is not None and known.metadata == metadata
            if as_before and (one.state == "CompletingRebalance" or (one.state == "Stable" and member != one.leader)):
                self._joined(name, member)
                self._watch(name, member)
                return
            self._rebalance(name)

    def sync(self, node: int, request: Any, code: int, answer: Answer) -> None:
        name, member = request.group_id, request.member_id
        one = self.groups.get(name, VirtualGroup())
        code = code or self._wrong(node, one, member, request.generation_id)
        if not code and one.state == "PreparingRebalance":
            code = Code.REBALANCE_IN_PROGRESS
        if code:
            answer(_synced(one, b"", code))
        elif one.state == "Stable":
            answer(_synced(one, one.assigned.get(member, b"")))
        else:
            one.members[member].syncs = answer
            if member == one.leader:
                one.assigned = {part.member_id: bytes(part.assignment) for part in request.assignments}
                one.state = "Stable"
                self._stored[name] = copy.copy(one)
                self._stored[name].members = dict(one.members)
                for who, waits in one.members.items():
                    if waits.syncs is not None:
                        waits.syncs(_synced(one, one.assigned.get(who, b"")))
                        waits.syncs = None

    def heartbeat(self, node: int, request: Any, code: int) -> Any:
        one = self.groups.get(request.group_id, VirtualGroup())
        code = code or self._wrong(node, one, request.member_id, request.generation_id)
        if not code:
            one.members[request.member_id].seen = self._timers.now()
            if one.state == "PreparingRebalance":
                code = Code.REBALANCE_IN_PROGRESS
        return group.HeartbeatResponse(throttle_time_ms=0, error_code=code)

    def leave(self, node: int, request: Any, code: int) -> Any:
        kind = group.LeaveGroupResponse
        code = code or (0 if node == self.node else Code.NOT_COORDINATOR)
        gone = []
        for member in request.members:
            there = member.member_id in self.groups.get(request.group_id, VirtualGroup()).members
            if there and not code:
                self._remove(request.group_id, member.member_id)
            gone.append(
                kind.MemberResponse(
                    member_id=member.member_id,
                    group_instance_id=None,
                    error_code=0 if there else Code.UNKNOWN_MEMBER_ID,
                )
            )
        return kind(throttle_time_ms=0, error_code=code, members=gone)

    def describe(self, node: int, request: Any, code: int) -> Any:
        kind = groups.DescribeGroupsResponse
        described = []
        for name in request.groups:
            one = self.groups.get(name, VirtualGroup(state="Dead"))
            described.append(
                kind.DescribedGroup(
                    error_code=code or (0 if node == self.node else Code.NOT_COORDINATOR),
                    group_id=name,
                    group_state=one.state,
                    protocol_type=one.kind,
                    protocol_data=one.protocol,
                    members=[
                        kind.DescribedGroup.DescribedGroupMember(
                            member_id=who,
                            group_instance_id=None,
                            client_id=member.client,
                            client_host="/10.0.0.1",
                            member_metadata=member.metadata.get(one.protocol, b"") if one.state == "Stable" else b"",
                            member_assignment=b"",
                        )
                        for who, member in one.members.items()
                    ],
                    authorized_operations=set(),
                )
            )
        return kind(throttle_time_ms=0, groups=described)

    def list(self, node: int, _request: Any, code: int) -> Any:
        kind = groups.ListGroupsResponse
        return kind(
            throttle_time_ms=0,
            error_code=code,
            groups=[
                kind.ListedGroup(group_id=name, protocol_type=one.kind, group_state=one.state)
                for name, one in self.groups.items()
                if node == self.node
            ],
        )

    # Inside.

    def _wrong(self, node: int, one: VirtualGroup, member: str, generation: int) -> int:
        if node != self.node:
            return Code.NOT_COORDINATOR
        if member not in one.members:
            return Code.UNKNOWN_MEMBER_ID
        return Code.NONE if generation == one.generation else Code.ILLEGAL_GENERATION

    def _rebalance(self, name: str) -> None:
        """Wait until every member has joined again, or its time for that is over."""
        one = self.groups[name]
        if one.state != "PreparingRebalance":
            one.state = "PreparingRebalance"
            one.round += 1
            this, longest = one.round, max(member.rebalance_s for member in one.members.values())
            for member in one.members.values():
                if member.syncs is not None:
                    member.syncs(_synced(one, b"", Code.REBALANCE_IN_PROGRESS))
                    member.syncs = None

            def late() -> None:
                here = self.groups.get(name)
                if here is one and one.round == this and one.state == "PreparingRebalance":
                    one.members = {who: member for who, member in one.members.items() if member.joins is not None}
                    self._complete(name)

            self._timers.later(longest, late)
        self._complete(name)

    def _complete(self, name: str) -> None:
        one = self.groups[name]
        if not one.members:
            one.state, one.generation, one.leader = "Empty", one.generation + 1, ""
            return
        if any(member.joins is None for member in one.members.values()):
            return
        one.state, one.generation = "CompletingRebalance", one.generation + 1
        if one.leader not in one.members:
            one.leader = next(iter(one.members))
        one.protocol = next(iter(one.members[one.leader].metadata))
        for who in list(one.members):
            self._joined(name, who)
            self._watch(name, who)

    def _joined(self, name: str, member: str) -> None:
        one = self.groups[name]
        kind = group.JoinGroupResponse
        joins, one.members[member].joins = one.members[member].joins, None
        assert joins is not None
        one.members[member].seen = self._timers.now()
        seen = one.members if member == one.leader else {}
        joins(
            kind(
                throttle_time_ms=0,
                error_code=0,
                generation_id=one.generation,
                protocol_type=one.kind,
                protocol_name=one.protocol,
                leader=one.leader,
                member_id=member,
                members=[
                    kind.JoinGroupResponseMember(
                        member_id=who, group_instance_id=None, metadata=other.metadata[one.protocol]
                    )
                    for who, other in seen.items()
                ],
            )
        )

    def _watch(self, name: str, member: str) -> None:
        """Remove a member once it was silent for its session."""
        one = self.groups[name]
        watched = one.members[member]

        def look() -> None:
            here = self.groups.get(name)
            if here is not one or one.members.get(member) is not watched:
                return
            left = watched.seen + watched.session_s - self._timers.now()
            if watched.joins is not None or watched.syncs is not None:
                self._timers.later(watched.session_s, look)
            elif left > 0:
                self._timers.later(left, look)
            else:
                self._remove(name, member)

        self._timers.later(watched.session_s, look)

    def _remove(self, name: str, member: str) -> None:
        one = self.groups[name]
        gone = one.members.pop(member, None)
        if gone is None:
            return
        if gone.joins is not None:
            gone.joins(_not_joined(Code.UNKNOWN_MEMBER_ID, member))
        if gone.syncs is not None:
            gone.syncs(_synced(one, b"", Code.UNKNOWN_MEMBER_ID))
        if one.members:
            self._rebalance(name)
        else:
            self._complete(name)


def _at_rest(member: Member, now: float) -> Member:
    return Member(member.client, member.session_s, member.rebalance_s, member.metadata, now)


def _not_joined(code: int, member: str) -> Any:
    return group.JoinGroupResponse(
        throttle_time_ms=0,
        error_code=code,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None,
        leader="",
        member_id=member,
        members=[],
    )


def _synced(one: VirtualGroup, assignment: bytes, code: int = 0) -> Any:
    return group.SyncGroupResponse(
        throttle_time_ms=0,
        error_code=code,
        protocol_type=one.kind,
        protocol_name=one.protocol,
        assignment=assignment,
    )

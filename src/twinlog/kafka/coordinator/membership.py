"""Membership in a group by Kafka's classic protocol, as the workers of Kafka Connect use it.

The group's coordinator is a broker. A leader stays the leader for as long as it is a member. The coordinator forgets a
member that was silent for the session timeout. (Kafka classes GroupMetadataManager and ClassicGroup.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from twinlog.errors import ClusterError, GroupTakenError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.lookup import GROUP, MOVED, Coordinator
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code

_SEVERAL_MEMBERS = 3
"""The version since which a request names the leaving members (Kafka 2.4, KIP-345)."""

SESSION_S = 6.0
"""The shortest session that brokers accept by default (`group.min.session.timeout.ms`)."""

LONGER_SESSIONS_S = (10.0, 30.0, 60.0, 300.0, 1800.0)
"""Tried in this order when brokers refuse a shorter session; by default brokers accept up to 1,800 s."""

REBALANCE_S = 60.0
"""The seconds for which the coordinator waits for members to join again."""

ANSWER_S = 3.0
"""The seconds that a coordinator may take for an answer that is independent of other members."""

_PROTOCOL = "v2"
"""The protocol name of the members' metadata; all members of a group need the same name."""


class HeartbeatResult(Enum):
    """The coordinator's answer to a heartbeat."""

    STABLE = "a member of the present generation"
    REBALANCE = "a member that must join again"
    OTHER_GENERATION = "a member of another generation"
    UNKNOWN_MEMBER = "no member any more"


@dataclass(frozen=True, slots=True)
class Generation:
    """The group between two rebalances, as a member sees it; the leader knows `members` (id to metadata)."""

    number: int
    member_id: str
    leader_id: str
    members: Mapping[str, bytes]

    @property
    def leads(self) -> bool:
        return self.member_id == self.leader_id


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as DescribeGroups returns it; `members` are client ids with their hosts."""

    protocol_type: str
    members: tuple[str, ...]


class Membership:
    """This client's membership in a group.

    `join` waits for the other members on a connection of its own, so `send_heartbeat` and `leave_group` may be called
    meanwhile. Calls raise ClusterError for an error that may pass, RefusedError when the principal lacks a right, and
    GroupTakenError while the group's members use another protocol.
    """

    def __init__(
        self,
        client: ClusterClient,
        group: str,
        protocol_type: str,
        session_s: float = SESSION_S,
        rebalance_s: float = REBALANCE_S,
    ) -> None:
        self.group = group
        self.session_s = session_s
        self._least_session_s = session_s
        self._rebalance_s = rebalance_s
        self.generation: Generation | None = None
        """None before the first `enter_generation`, and once the coordinator has dropped this member."""
        self._client = client
        self._protocol_type = protocol_type
        self._member_id = ""
        self._joins = 0
        self._coordinator = Coordinator(client, GROUP, group, self._check, timeout_s=ANSWER_S)

    async def join(self, metadata: bytes) -> Generation:
        """Join, or join again; returns once all members have joined, or the coordinator dropped the missing members.

        `enter_generation` and `sync` must follow. Raises ClusterError once `join` was called again.
        """
        self._joins = joins = self._joins + 1
        while True:
            response = await self._call(
                JoinGroupRequest(
                    group_id=self.group,
                    session_timeout_ms=int(self.session_s * 1000),
                    rebalance_timeout_ms=int(self._rebalance_s * 1000),
                    member_id=self._member_id,
                    group_instance_id=None,
                    protocol_type=self._protocol_type,
                    protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=metadata)],
                    max_version=7,
                ),
                apart=True,
                timeout_s=self._rebalance_s + ANSWER_S,
            )
            if joins != self._joins:
                raise ClusterError(f"cluster {self._client.alias}: group {self.group}: another join came after")
            code = response.error_code
            if code == Code.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
            elif code == Code.INVALID_SESSION_TIMEOUT:
                self._lengthen()
            else:
                self._check(code)
                break
        self._member_id = response.member_id
        members = {member.member_id: bytes(member.metadata) for member in response.members}
        return Generation(response.generation_id, response.member_id, response.leader, members)

    def enter_generation(self, generation: Generation) -> None:
        """Become a member of a generation that `join` returned."""
        self.generation = generation

    async def sync(self, assignments: Mapping[str, bytes]) -> bytes | None:
        """Send the leader's assignments (by member id) or wait for the leader; returns this member's assignment.

        After this the generation is in the coordinator's log, so another broker that takes the group over has the
        generation. None when the next rebalance began meanwhile.
        """
        generation = self._require()
        kind = SyncGroupRequest.SyncGroupRequestAssignment
        response = await self._call(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=generation.number,
                member_id=generation.member_id,
                group_instance_id=None,
                protocol_type=self._protocol_type,
                protocol_name=_PROTOCOL,
                assignments=[kind(member_id=member, assignment=given) for member, given in assignments.items()],
                max_version=5,
            ),
            apart=True,
            timeout_s=self._rebalance_s + ANSWER_S,
        )
        if response.error_code == Code.REBALANCE_IN_PROGRESS:
            return None
        self._check(response.error_code)
        return bytes(response.assignment)

    async def send_heartbeat(self) -> HeartbeatResult:
        """Send a heartbeat; the coordinator restarts the session timeout when the heartbeat arrives."""
        generation = self._require()
        response = await self._call(
            HeartbeatRequest(
                group_id=self.group,
                generation_id=generation.number,
                member_id=generation.member_id,
                group_instance_id=None,
                max_version=4,
            )
        )
        if response.error_code == Code.UNKNOWN_MEMBER_ID:
            return HeartbeatResult.UNKNOWN_MEMBER
        if response.error_code == Code.ILLEGAL_GENERATION:
            return HeartbeatResult.OTHER_GENERATION
        if response.error_code == Code.REBALANCE_IN_PROGRESS:
            return HeartbeatResult.REBALANCE
        self._check(response.error_code)
        return HeartbeatResult.STABLE

    async def leave_group(self) -> None:
        """End the membership, also while `join` waits, so that the other members continue before the session's end."""
        if not self._member_id:
            return
        if self._client.supports(LeaveGroupRequest.API_KEY, _SEVERAL_MEMBERS):
            member = LeaveGroupRequest.MemberIdentity(member_id=self._member_id, group_instance_id=None)
            request = LeaveGroupRequest(group_id=self.group, members=[member], max_version=4, min_version=3)
        else:
            request = LeaveGroupRequest(group_id=self.group, member_id=self._member_id, max_version=2)
        self.reset_member()
        await self._call(request)

    async def describe(self) -> GroupDescription:
        """The group's members."""
        response = await self._call(
            DescribeGroupsRequest(groups=[self.group], include_authorized_operations=False, max_version=5)
        )
        (seen,) = response.groups
        self._check(seen.error_code, operation="DESCRIBE")
        members = (f"{member.client_id} at {member.client_host.lstrip('/')}" for member in seen.members)
        return GroupDescription(seen.protocol_type, tuple(sorted(members)))

    def reset_member(self) -> None:
        """Drop the member id; the next `join` gets a new member id."""
        self._member_id = ""
        self.generation = None

    def _require(self) -> Generation:
        if self.generation is None:
            raise ClusterError(f"cluster {self._client.alias}: no member of group {self.group}")
        return self.generation

    def _lengthen(self) -> None:
        least = self._least_session_s
        longer = next((session for session in LONGER_SESSIONS_S if session > self.session_s), None)
        if longer is None:
            raise RefusedError(
                f"cluster {self._client.alias}: it refuses sessions from {least:.0f} to {self.session_s:.0f} s; "
                "lower group.min.session.timeout.ms or raise group.max.session.timeout.ms of the brokers",
                message_id="TW-LEADER-16",
            )
        self.session_s = longer

    async def _call(self, request: Any, *, apart: bool = False, timeout_s: float = ANSWER_S) -> Any:
        return await self._coordinator.send_request(request, timeout_s, apart=apart)

    def _check(self, code: int, *, operation: str = "READ") -> None:
        """Raise the error of an error code."""
        if code == Code.NONE:
            return
        alias = self._client.alias
        if code in MOVED:
            self._coordinator.reset_node()
        if code == Code.UNKNOWN_MEMBER_ID:
            self.reset_member()
        if code == Code.INCONSISTENT_GROUP_PROTOCOL:
            raise GroupTakenError(f"cluster {alias}: group {self.group} has members of another kind")
        if error_codes.refused(code):
            raise self._client.lacks(operation, f"group {self.group}", "choosing which process runs the flow")
        raise ClusterError(f"cluster {alias}: group {self.group}: {error_codes.explain(code)}")

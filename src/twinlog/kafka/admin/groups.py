"""Describes consumer groups, and commits offsets for groups from outside of the groups: many groups at a time.

Requests for offsets go to the coordinators of the groups: a request to a broker has up to a hundred groups (KIP-709,
KIP-699). A commit is a request for a single group; many commits are in flight to a broker at the same time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.group import OffsetCommitRequest, OffsetFetchRequest

from twinlog.errors import ClusterError, TwinlogError
from twinlog.kafka.admin.topics import operations_of
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.lookup import CHUNK, GROUP, MOVED, Coordinators, ask_at_once, chunked
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import by_topic
from twinlog.kafka.retry import MOVING_COORDINATOR
from twinlog.model.groups import GROUPS_TOPIC, CommittedOffset, GroupListing, GroupMember, GroupMembers, GroupOffsets
from twinlog.model.types import GroupId, TopicName, TopicPartition

_TIMEOUT_S = 15.0
BROKERS_S = 5.0
"""The seconds for which the list of brokers is believed: groups are listed for every connector every few seconds."""

_OFFSET_FETCH = 9
_SEVERAL_GROUPS = 8
"""The version since which a request may name many groups (Kafka 3.0)."""

_WITH_STATES = 4
"""The version of ListGroups since which the answer has the states of groups."""

_WITH_NAMES = 9
"""The last version of requests about offsets that names topics; newer versions want topic ids."""

_WITH_RETENTION = 4
"""The last version of OffsetCommit that has a retention time (KIP-211); present brokers take it, too."""

_LOADING = frozenset({Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE})

_COUNT = struct.Struct(">hi")
"""The version, and the number of topics; later versions add fields at the end."""

_LENGTH = struct.Struct(">h")


class GroupAdmin:
    """The groups of a cluster; its coroutines run on the client's loop.

    Each coroutine raises ClusterError when the cluster fails to answer. Errors of single groups are returned as the
    protocol's error code by group.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._coordinators = Coordinators(client, GROUP, timeout_s=_TIMEOUT_S)
        self._answers: dict[tuple[GroupId, ...], tuple[bytes, _Offsets]] = {}

    async def listed(self) -> dict[GroupId, GroupListing]:
        """Every group that this principal may describe, with its state, from all brokers.

        The lists of brokers before Kafka 2.6 lack states (KIP-518): these brokers are asked for descriptions, too.
        """
        deadline = self._client.loop.clock.monotonic() + MOVING_COORDINATOR.patience_s
        while True:
            nodes = await self._client.nodes(age_s=BROKERS_S)
            answers = await self._ask_all(
                [(node, ListGroupsRequest(states_filter=[], types_filter=[])) for node in nodes]
            )
            code = next((answer.error_code for answer in answers if answer.error_code), Code.NONE)
            if code not in _LOADING or self._client.loop.clock.monotonic() > deadline:
                break
            await self._client.loop.sleep(MOVING_COORDINATOR.first_s)
        if code:
            raise ClusterError(
                f"cluster {self._client.alias}: it does not list its groups: {error_codes.explain(code)}"
            )
        without = {
            node: [GroupId(one.group_id) for one in answer.groups]
            for node, answer in zip(nodes, answers, strict=True)
            if answer.API_VERSION < _WITH_STATES
        }
        states = await self._states(without) if any(without.values()) else {}
        return {
            name: GroupListing(name, one.protocol_type, one.group_state or states.get(name, ""), one.group_type or "")
            for answer in answers
            for one in answer.groups
            for name in [GroupId(one.group_id)]
        }

    async def _states(self, by_node: Mapping[int, Sequence[GroupId]]) -> dict[GroupId, str]:
        """The states of groups by their coordinators' descriptions; groups whose description failed are missing."""
        asked = [
            (node, DescribeGroupsRequest(groups=list(chunk), include_authorized_operations=False, max_version=5))
            for node, theirs in by_node.items()
            for chunk in chunked(theirs, CHUNK)
        ]
        return {
            GroupId(one.group_id): one.group_state
            for answer in await self._ask_all(asked)
            for one in answer.groups
            if not one.error_code
        }

    async def kept(self) -> bool:
        """Whether the cluster has ever had a group; before its first group it answers like a moving coordinator."""
        return (await self._client.refresh([GROUPS_TOPIC]))[GROUPS_TOPIC].error != Code.UNKNOWN_TOPIC_OR_PARTITION

    async def unlisted(self) -> int:
        """The number of partitions of `GROUPS_TOPIC` that lack a leader now: their groups are missing from all lists.

        0 if the topic is hidden from this principal.
        """
        topic = (await self._client.refresh([GROUPS_TOPIC]))[GROUPS_TOPIC]
        return 0 if topic.error else topic.partitions - len(topic.leaders)

    async def offsets(self, groups: Iterable[GroupId]) -> _Offsets:
        """The committed offsets of each group, and the error codes of groups whose offsets are unreadable.

        The offsets of a missing group are empty. Offsets of a transaction count once the transaction has ended. If the
        answer equals the answer of the last call with the same groups, the same values are returned.
        """
        return await self._read(groups, stable=False)

    async def some_offsets(self, groups: Iterable[GroupId]) -> _Offsets:
        """As `offsets`, for a few groups: the next call of `offsets` still knows the values of all groups."""
        answers = self._answers
        try:
            return await self._read(groups, stable=False)
        finally:
            self._answers = answers

    async def stable_offsets(self, groups: Iterable[GroupId]) -> _Offsets:
        """As `offsets`; a group with offsets in an open transaction has the code UNSTABLE_OFFSET_COMMIT (KIP-447)."""
        return await self._read(groups, stable=True)

    async def _read(self, groups: Iterable[GroupId], *, stable: bool) -> _Offsets:
        found: dict[GroupId, GroupOffsets] = {}
        by_node, wrong = await self._by_coordinator(groups)
        asked = [(node, chunk) for node, theirs in by_node.items() for chunk in chunked(theirs, self._chunk)]
        answers = await self._ask_all([(node, self._offsets_request(chunk, stable=stable)) for node, chunk in asked])
        before, self._answers = self._answers, {}
        for (_, chunk), answer in zip(asked, answers, strict=True):
            known = before.get(chunk)
            content = answer.content
            if known is None or known[0] != content:
                known = content, _read_offsets(answer.decode(), chunk)
            if not known[1][1]:
                self._answers[chunk] = known
            found.update(known[1][0])
            wrong.update(known[1][1])
        self._forget_moved(wrong)
        return found, wrong

    async def operations(self, groups: Iterable[GroupId]) -> dict[GroupId, frozenset[int] | None]:
        """The operations allowed to the principal on each group, which may be missing (KIP-430); None if unknown."""
        by_node, wrong = await self._by_coordinator(groups)
        asked = [
            (node, DescribeGroupsRequest(groups=list(chunk), include_authorized_operations=True, max_version=5))
            for node, theirs in by_node.items()
            for chunk in chunked(theirs, CHUNK)
        ]
        # A broker names the coordinator of a group to logins with DESCRIBE only, which each other operation includes.
        found: dict[GroupId, frozenset[int] | None] = {
            group: frozenset[int]() for group, code in wrong.items() if error_codes.refused(code)
        }
        for answer in await self._ask_all(asked):
            for one in answer.groups:
                known = None
                if error_codes.refused(one.error_code):
                    known = frozenset[int]()
                elif not one.error_code and answer.API_VERSION >= 3:
                    known = operations_of(one.authorized_operations)
                found[GroupId(one.group_id)] = known
        return found

    async def commit(
        self, offsets: Mapping[GroupId, GroupOffsets], kept_ms: int | None = None
    ) -> dict[GroupId, dict[TopicPartition, int]]:
        """Commit offsets for groups from outside of the groups; returns the error codes of refused partitions.

        The cluster keeps the offsets for `kept_ms`, or for the brokers' `offsets.retention.minutes`. The broker takes
        offsets only for a group without members, and creates a missing group (Kafka class OffsetMetadataManager,
        validateOffsetCommit). If a group lacks a coordinator, each partition has the error code of the lookup. A
        process that may have lost the leadership of the flow commits nothing (ClusterError).
        """
        by_node, wrong = await self._by_coordinator(offsets)
        asked = [(node, group) for node, theirs in by_node.items() for group in theirs]
        requests = [(node, _commit_request(group, offsets[group], kept_ms)) for node, group in asked]
        answers = await self._send_all(self._client.send_change, requests)
        refused: dict[GroupId, dict[TopicPartition, int]] = {
            group: dict.fromkeys(offsets[group], code) for group, code in wrong.items()
        }
        for (_, group), answer in zip(asked, answers, strict=True):
            codes = {
                TopicPartition(TopicName(topic.name), part.partition_index): int(part.error_code)
                for topic in answer.topics
                for part in topic.partitions
                if part.error_code
            }
            if codes:
                refused[group] = codes
        self._forget_moved({group: code for group, codes in refused.items() for code in codes.values()})
        return refused

    async def described(self, group: GroupId) -> GroupMembers:
        """A group of the classic protocol with its members; a missing group is returned with an empty list of members.

        Raises ClusterError also when its coordinator fails to answer, RefusedError if the principal lacks DESCRIBE on
        the group.
        """
        deadline = self._client.loop.clock.monotonic() + MOVING_COORDINATOR.patience_s
        while True:
            code, seen = await self._describe(group)
            if seen is not None:
                return seen
            self._forget_moved({group: code})
            if code not in _LOADING | MOVED or self._client.loop.clock.monotonic() > deadline:
                break
            await self._client.loop.sleep(MOVING_COORDINATOR.first_s)
        if error_codes.refused(code):
            raise self._client.lacks("DESCRIBE", f"group {group}", "seeing who runs a flow")
        raise ClusterError(f"cluster {self._client.alias}: group {group}: {error_codes.explain(code)}")

    async def _describe(self, group: GroupId) -> tuple[int, GroupMembers | None]:
        """A group, or the error code in its place."""
        by_node, wrong = await self._by_coordinator([group])
        if wrong.get(group) == Code.COORDINATOR_NOT_AVAILABLE and not await self.kept():
            return Code.NONE, GroupMembers("", "Dead", ())
        if group in wrong:
            return wrong[group], None
        ((node, _),) = by_node.items()
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False, max_version=5)
        (answer,) = await self._ask_all([(node, request)])
        (seen,) = answer.groups
        if seen.error_code:
            return int(seen.error_code), None
        members = (
            GroupMember(
                one.member_id,
                one.client_id,
                one.client_host.lstrip("/"),
                bytes(one.member_metadata or b""),
                bytes(one.member_assignment or b""),
            )
            for one in seen.members
        )
        return Code.NONE, GroupMembers(seen.protocol_type or "", seen.group_state or "", tuple(members))

    async def _by_coordinator(self, groups: Iterable[GroupId]) -> tuple[dict[int, list[GroupId]], dict[GroupId, int]]:
        wanted = list(groups)
        nodes, codes = await self._coordinators.find_nodes(wanted)
        found: dict[int, list[GroupId]] = {}
        for group in wanted:
            if group in nodes:
                found.setdefault(nodes[group], []).append(group)
        return found, {GroupId(group): code for group, code in codes.items()}

    def _forget_moved(self, wrong: Mapping[GroupId, int]) -> None:
        for group, code in wrong.items():
            if code in MOVED:
                self._coordinators.nodes.pop(group, None)

    @property
    def _chunk(self) -> int:
        return CHUNK if self._client.supports(_OFFSET_FETCH, _SEVERAL_GROUPS) else 1

    def _offsets_request(self, groups: Sequence[GroupId], *, stable: bool) -> Any:
        if self._chunk == 1:
            return OffsetFetchRequest(
                group_id=groups[0], topics=None, require_stable=stable, max_version=_SEVERAL_GROUPS - 1
            )
        kind = OffsetFetchRequest.OffsetFetchRequestGroup
        return OffsetFetchRequest(
            groups=[kind(group_id=group, member_id=None, member_epoch=-1, topics=None) for group in groups],
            require_stable=stable,
            min_version=_SEVERAL_GROUPS,
            max_version=_WITH_NAMES,
        )

    async def _ask_all(self, requests: Sequence[tuple[int | None, Any]]) -> list[Any]:
        return await self._send_all(self._client.send_request, requests)

    async def _send_all(self, send: _Send, requests: Sequence[tuple[Any, Any]]) -> list[Any]:
        try:
            return await ask_at_once(self._client, send, requests, _TIMEOUT_S)
        except TwinlogError:
            # A silent coordinator may have moved.
            self._coordinators.nodes.clear()
            raise


_Offsets = tuple[dict[GroupId, GroupOffsets], dict[GroupId, int]]
_Send = Callable[..., Coroutine[Any, Any, Any]]


def _commit_request(group: GroupId, offsets: GroupOffsets, kept_ms: int | None) -> Any:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    kept: dict[str, int] = {} if kept_ms is None else {"retention_time_ms": kept_ms}
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=by_topic(offsets, kind, kind.OffsetCommitRequestPartition),
        max_version=_WITH_RETENTION if kept else _WITH_NAMES,
        **kept,
    )


def _read_offsets(response: Any, groups: Sequence[GroupId]) -> _Offsets:
    """Read the offsets of a response; drops offsets below 0, which some clients commit to delete an offset."""
    found: dict[GroupId, GroupOffsets] = {}
    wrong: dict[GroupId, int] = {}
    several = response.API_VERSION >= _SEVERAL_GROUPS
    for answer in response.groups if several else [response]:
        group = GroupId(answer.group_id) if several else groups[0]
        offsets: GroupOffsets = {}
        code = answer.error_code
        for topic in answer.topics:
            name = TopicName(topic.name)
            for part in topic.partitions:
                if part.error_code:
                    code = part.error_code
                elif part.committed_offset >= 0:
                    offsets[TopicPartition(name, part.partition_index)] = CommittedOffset(
                        part.committed_offset, part.metadata or ""
                    )
        if code:
            wrong[group] = code
        else:
            found[group] = offsets
    return found, wrong


def topics_read(group: GroupMembers) -> frozenset[TopicName] | None:
    """The topics that members of a group subscribe to; None if some member's topics are unknown.

    Only the coordinator knows the topics of a group of the newer protocol (KIP-848).
    """
    if group.protocol != "consumer" or not group.members:
        return None
    found: set[TopicName] = set()
    for member in group.members:
        try:
            found |= _topics(member.metadata)
        except (struct.error, UnicodeDecodeError):
            return None
    return frozenset(found) or None


def _topics(subscription: bytes) -> set[TopicName]:
    _, count = _COUNT.unpack_from(subscription)
    at = _COUNT.size
    found = set()
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(subscription, at)
        at += _LENGTH.size
        if at + length > len(subscription):
            raise struct.error("a name ends past the end")
        found.add(TopicName(subscription[at : at + length].decode()))
        at += length
    return found

"""Works out the rights that the flows of a file need, per cluster and principal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem
from twinlog.kafka.net.connections import principal as principal_of
from twinlog.model.acls import ANYWHERE, IMPLIED, Acl, AclOperation, AclPermissionType, ResourceType, includes
from twinlog.model.types import Alias
from twinlog.ops.acls.command_rights import COMMAND_ROWS, SWITCHOVER_ROWS
from twinlog.ops.acls.resources import TWINLOG_TOPICS, Resource
from twinlog.ops.acls.rights import Login, RightRow, Side
from twinlog.ops.acls.run_rights import RUN_ROWS
from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import ExactlyOnce, FlowSettings
from twinlog.settings.worker import GroupSettings, WorkerSettings


@dataclass(frozen=True, slots=True, order=True)
class NeededRight:
    """An operation on resources of a cluster that a principal needs; `why` lists the purposes."""

    cluster: Alias
    principal: str
    resource: Resource
    operation: AclOperation
    why: str = field(default="", compare=False)

    @property
    def as_acl(self) -> Acl:
        """The ACL that gives exactly this right."""
        place, allow = self.resource, AclPermissionType.ALLOW
        return Acl(place.kind, place.name, self.principal, ANYWHERE, self.operation, allow, place.pattern)


@dataclass(frozen=True, slots=True)
class RightLine:
    """Operations of a principal on the same resources: a line of output.

    Brokers hide from the login that asks whether `unknown` operations are given. A `withdrawn` line removes its ACLs.
    """

    cluster: Alias
    principal: str
    resource: Resource
    operations: tuple[AclOperation, ...]
    why: str = ""
    unknown: bool = False
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class DenialLine:
    """An ACL that takes rights away, whatever an ALLOW gives.

    `taken` names the rights and their principals. twinlog itself removes a denial of its `fence`, unless `left_by`
    names the flow that has left it.
    """

    cluster: Alias
    acl: Acl
    taken: str
    fence: bool = False
    left_by: str = ""


def denial_of(acl: Acl, rights: Sequence[NeededRight], *, fence: bool) -> DenialLine:
    """The line of a denial of `rights`, which are of the same cluster."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in rights:
        found[one.principal].append(one.operation.name)
    taken = [f"{', '.join(dict.fromkeys(names))} from {who}" for who, names in found.items()]
    return DenialLine(rights[0].cluster, acl, " and ".join(taken), fence)


ROWS = (*RUN_ROWS, *COMMAND_ROWS, *SWITCHOVER_ROWS)
"""All rights that twinlog knows."""

_Rights = dict[tuple[Resource, AclOperation], list[str]]


def needed_rights(
    flows: Sequence[FlowSettings],
    uses: Collection[str],
    worker: WorkerSettings | None = None,
    principals: Mapping[str, str] | None = None,
) -> list[NeededRight]:
    """The rights that the commands `uses` need for `flows`, without rights that another right of the list includes.

    `principals` has the principal of a cluster's logins, as an operator names it. Raises ConfigError if only the
    brokers know a principal.
    """
    rows = [row for row in ROWS if not set(uses).isdisjoint(row.uses)]
    return _rights(flows, rows, worker if "run" in uses else None, principals or {})


def printed_rights(
    flows: Sequence[FlowSettings],
    uses: Collection[str],
    worker: WorkerSettings | None = None,
    principals: Mapping[str, str] | None = None,
) -> list[NeededRight]:
    """Every right that `needed_rights` has for any of the commands: a right that one command needs may include a right
    that another command needs. Raises ConfigError as `needed_rights` does."""
    found = {one: one for use in uses for one in needed_rights(flows, [use], worker, principals)}
    return sorted(found)


def rights_of_mirror_maker(
    flows: Sequence[FlowSettings], worker: WorkerSettings | None = None, principals: Mapping[str, str] | None = None
) -> list[NeededRight]:
    """The rights that MirrorMaker 2 needs for the flows, as `needed_rights` has them for twinlog."""
    return _rights(flows, [row for row in ROWS if row.mm2], worker, principals or {})


def withdrawn_rights(
    rights: Iterable[NeededRight], kept: Collection[NeededRight]
) -> tuple[list[NeededRight], list[NeededRight]]:
    """The rights that may go while `kept` are needed, and those of `kept` that another right gave so far.

    A right that another operation of `kept` implies may go, and so may rights on twinlog's own topics.
    """
    given = list(rights)
    gone = [
        one
        for one in given
        if one.resource.name.startswith(TWINLOG_TOPICS)
        or not any(keep.operation == one.operation and includes(keep.as_acl, one.as_acl) for keep in _of(kept, one))
    ]
    have = {(one.cluster, one.as_acl) for one in given}
    lost = [
        keep
        for keep in kept
        if (keep.cluster, keep.as_acl) not in have
        and any(one.cluster == keep.cluster and includes(one.as_acl, keep.as_acl) for one in gone)
    ]
    return gone, lost


def lost_by_withdrawal(
    gone: Collection[NeededRight], kept: Collection[NeededRight], needed: Iterable[NeededRight]
) -> list[NeededRight]:
    """The `needed` rights that `gone` gave, as a whole or in a part of their resources, and that `kept` leaves out."""

    def gave(one: NeededRight, need: NeededRight) -> bool:
        part = one.operation == need.operation and includes(need.as_acl, one.as_acl)
        return part or includes(one.as_acl, need.as_acl)

    return [
        need
        for need in needed
        if any(gave(one, need) for one in _of(gone, need))
        and not any(includes(keep.as_acl, need.as_acl) for keep in _of(kept, need))
    ]


def _of(rights: Iterable[NeededRight], other: NeededRight) -> Iterable[NeededRight]:
    return (one for one in rights if one.cluster == other.cluster)


def _rights(
    flows: Sequence[FlowSettings],
    rows: Sequence[RightRow],
    worker: WorkerSettings | None,
    given: Mapping[str, str],
) -> list[NeededRight]:
    found: dict[tuple[Alias, str], _Rights] = defaultdict(dict)
    for flow in flows:
        for row in rows:
            if not row.when(flow):
                continue
            cluster = flow.source if row.side == "source" else flow.target
            for who in dict.fromkeys(
                _principal(cluster, _client(flow, row.side, login), given) for login in row.logins
            ):
                for place in row.places(flow):
                    _add(found[cluster, who], place, row.operations, row.why)
    if worker is not None and worker.group is not None:
        cluster = _cluster_of(worker, flows)
        _add_worker(found[cluster, _principal(cluster, worker.client, given)], worker.group, worker.exactly_once)
    return sorted(
        NeededRight(cluster, who, place, operation, "; ".join(dict.fromkeys(why)))
        for (cluster, who), rights in found.items()
        for (place, operation), why in rights.items()
        if not any(other != (place, operation) and _includes(other, (place, operation)) for other in rights)
    )


def lines_of(rights: Iterable[NeededRight], *, unknown: bool = False, withdrawn: bool = False) -> list[RightLine]:
    """The rights with the operations on the same resources joined, each cluster by itself."""
    found: dict[tuple[Alias, str, Resource], list[NeededRight]] = defaultdict(list)
    for one in rights:
        found[one.cluster, one.principal, one.resource].append(one)
    return [
        RightLine(
            *key,
            tuple(one.operation for one in some),
            "; ".join(dict.fromkeys(one.why for one in some)),
            unknown,
            withdrawn,
        )
        for key, some in sorted(found.items())
    ]


def clients_of(flows: Sequence[FlowSettings], worker: WorkerSettings | None) -> dict[Alias, ClientSettings]:
    """The admin client of each cluster."""
    found: dict[Alias, ClientSettings] = {}
    for flow in flows:
        if flow.enabled:
            found.setdefault(flow.source, flow.source_admin.client)
        found.setdefault(flow.target, flow.target_admin.client)
    if worker is not None and worker.group is not None:
        found.setdefault(_cluster_of(worker, flows), worker.client)
    return found


def _client(flow: FlowSettings, side: Side, login: Login) -> ClientSettings:
    if side == "source":
        return flow.consumer.client if login == "data" else flow.source_admin.client
    return flow.producer.client if login == "data" else flow.target_admin.client


def _principal(cluster: Alias, client: ClientSettings, given: Mapping[str, str]) -> str:
    found = given.get(cluster) or principal_of(client)
    if not found.startswith("User:"):
        expected = f"--principal {cluster}=User:NAME, because only the brokers know the user of a token"
        raise ConfigError([ConfigProblem("twinlog acls", None, "--principal", f"nothing for {cluster}", expected)])
    return found


def _cluster_of(worker: WorkerSettings, flows: Sequence[FlowSettings]) -> Alias:
    """The alias of the cluster that has the worker's topics."""
    ends = [(flow.target, flow.target_admin.client) for flow in flows]
    ends += [(flow.source, flow.source_admin.client) for flow in flows]
    return next((alias for alias, client in ends if client.shares_servers(worker.client)), Alias("worker"))


def _add(rights: _Rights, place: Resource, operations: Iterable[AclOperation], why: str) -> None:
    for operation in operations:
        rights.setdefault((place, operation), []).append(why)


def _add_worker(rights: _Rights, group: GroupSettings, exactly_once: ExactlyOnce) -> None:
    _add(rights, Resource(ResourceType.GROUP, group.group_id), (AclOperation.READ,), "the group of the workers")
    storage = (AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS)
    for topic in (group.config_storage, group.offset_storage, group.status_storage):
        _add(rights, Resource(ResourceType.TOPIC, topic.name), storage, "the state of the workers")
    if exactly_once != "disabled":
        leader = Resource(ResourceType.TRANSACTIONAL_ID, f"connect-cluster-{group.group_id}")
        _add(rights, leader, (AclOperation.WRITE,), "a single leader of the workers writes configurations")


def _includes(one: tuple[Resource, AclOperation], other: tuple[Resource, AclOperation]) -> bool:
    """Whether a right makes another right unnecessary."""
    (place, operation), (wanted, needed) = one, other
    return place.covers(wanted) and (operation == needed or operation in IMPLIED.get(needed, ()))

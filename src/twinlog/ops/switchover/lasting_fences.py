"""The denials and quotas that keep all producers from topics although no journal has them, in words with the commands
that remove them.

A release removes the ACLs and quotas of its own fence. All others stay: they were set by hand, or by a switchover whose
journal was deleted.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from twinlog.errors import RefusedError
from twinlog.model.acls import ANYWHERE, EVERYBODY, Acl, AclOperation, AclPermissionType, covers
from twinlog.model.quotas import EVERY_USER, PRODUCER_BYTE_RATE, Quota, QuotaEntity
from twinlog.model.topics import listed
from twinlog.model.types import Alias, TopicName
from twinlog.ops.acls.formats import admin_tool, removal_of
from twinlog.ops.acls.needs import DenialLine
from twinlog.ops.switchover.fencing import FIRST_RATE, RATE, UNLIMITED, acls_of
from twinlog.ops.switchover.model import Data
from twinlog.ops.switchover.steps.step import SwitchoverClusters
from twinlog.settings.client import ClientSettings

FENCE_STAYS = "TW-SWITCH-21"


def name_lasting_denials(
    acls: Iterable[Acl],
    topics: Collection[TopicName],
    others: Mapping[str, Data],
    cluster: Alias,
    client: ClientSettings,
) -> list[str]:
    """A line for each kind of denial that keeps every login from writing to `topics`, with the way to remove it.

    `others` are the fences of other moves by the words for them: the release of such a move removes its fence.
    """
    owners = {acl: move for move, plan in others.items() for acl in acls_of(plan.get("remove", []))}
    found: defaultdict[tuple[str, int, int], list[Acl]] = defaultdict(list)
    for acl in sorted(set(acls)):
        if _closes(acl, topics):
            found[owners.get(acl.of_topic, ""), acl.operation, acl.pattern].append(acl)
    lines = []
    for (move, operation, _pattern), some in found.items():
        fence = f"fence of DENY {AclOperation(operation).name} {EVERYBODY} on {listed(acl.name for acl in some)} stays"
        if move:
            lines.append(f"{fence}, it is the fence of {move}: lift it by --release of that move")
            continue
        command = removal_of(DenialLine(cluster, some[0], ""), {cluster: client})
        command += "".join(f" --topic {shlex.quote(acl.name)}" for acl in some[1:])
        lines.append(f"{fence}, it was set by hand or by an earlier switchover: remove it by {command}")
    return lines


def name_lasting_quotas(quotas: Collection[Quota], cluster: Alias, client: ClientSettings) -> list[str]:
    """A line for each quota of a fence, with the way to remove it; none while users without a quota of their own may
    produce. The fence replaced the former quotas of the named users and client ids."""
    if not any(one.entity == EVERY_USER and one.rate in (RATE, FIRST_RATE) for one in quotas):
        return []
    lines = []
    for one in sorted(quotas, key=lambda quota: (quota.entity != EVERY_USER, str(quota.entity))):
        if one.rate not in (RATE, FIRST_RATE, UNLIMITED):
            continue
        words = [*admin_tool("kafka-configs.sh", cluster, client), "--alter", *_entity_words(one.entity)]
        command = shlex.join([*words, "--delete-config", PRODUCER_BYTE_RATE])
        former = "" if one.entity == EVERY_USER else f", and set the former quota of {one.entity}, if it had any"
        lines.append(
            f"fence of {one} stays, it was set by hand or by an earlier switchover: remove it by {command}{former}"
        )
    return lines


def _entity_words(entity: QuotaEntity) -> list[str]:
    words = []
    for kind, name in (("users", entity.user), ("clients", entity.client_id)):
        if name is not None:
            words += ["--entity-type", kind, *(["--entity-name", name] if name else ["--entity-default"])]
    return words


class UnknownFences(NamedTuple):
    """`stays` has a line for each denial and quota of the source, `unread` a line if the login lacks the right to read
    ACLs."""

    stays: list[str]
    unread: list[str]

    @property
    def lines(self) -> list[str]:
        """The known denials and quotas; else the line with the command that lists denials."""
        return self.stays or self.unread


def find_unknown_fences(world: SwitchoverClusters) -> UnknownFences:
    """The denials and quotas that keep all producers from the topics of the flow, for a direction without a switchover.

    Quotas that the login may not read are left out. Raises ClusterError.
    """
    found = UnknownFences([], [])
    if world.source_answers:
        try:
            found.stays.extend(world.find_lasting_denials(world.list_moving_topics()))
        except RefusedError as error:
            found.unread.append(f"producers may still be fenced on {world.ends.source}: {error}")
        with suppress(RefusedError):
            found.stays.extend(world.find_lasting_quotas())
    return found


def list_command(cluster: Alias, client: ClientSettings) -> str:
    """The command of Kafka's kafka-acls.sh that lists all ACLs of a cluster."""
    return shlex.join([*admin_tool("kafka-acls.sh", cluster, client), "--list"])


def _closes(acl: Acl, topics: Collection[TopicName]) -> bool:
    """Whether an ACL keeps every login from writing to a topic."""
    return (
        (acl.principal, acl.host, acl.permission) == (EVERYBODY, ANYWHERE, AclPermissionType.DENY)
        and acl.operation in (AclOperation.WRITE, AclOperation.ALL)
        and any(covers(acl.pattern, acl.name, topic) for topic in topics)
    )

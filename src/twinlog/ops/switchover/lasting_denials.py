"""The denials that still keep all producers from topics after a release, in words with the commands that remove them.

A release removes the ACLs of its own fence. An ACL that was there before stays: it was set by hand, or by a switchover
whose journal was deleted.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from twinlog.model.acls import ANYWHERE, EVERYBODY, Acl, AclOperation, AclPermissionType, covers
from twinlog.model.topics import listed
from twinlog.model.types import Alias, TopicName
from twinlog.ops.acls.formats import removal_of
from twinlog.ops.acls.needs import DenialLine
from twinlog.ops.switchover.fencing import acls_of
from twinlog.ops.switchover.model import Data
from twinlog.settings.flow import ClientSettings

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


def _closes(acl: Acl, topics: Collection[TopicName]) -> bool:
    """Whether an ACL keeps every login from writing to a topic."""
    return (
        (acl.principal, acl.host, acl.permission) == (EVERYBODY, ANYWHERE, AclPermissionType.DENY)
        and acl.operation in (AclOperation.WRITE, AclOperation.ALL)
        and any(covers(acl.pattern, acl.name, topic) for topic in topics)
    )

"""Compares the ACLs of mirrored topics with the ACLs of their copies, by the operations that they give.

Three kinds of ACLs are left out. twinlog removes its fences itself. A denial that would keep the mirror from its
copies belongs only to the source. An ACL of a copy is useful if the mirror needs it, or if the principal has the same
right on the source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from twinlog.model.acls import EVERYBODY, Acl, AclIndex, ResourceType, includes
from twinlog.ops.acls.missing import takes_away
from twinlog.ops.acls.needs import NeededRight
from twinlog.ops.audit.report import AuditPart, Finding, Severity, limited
from twinlog.ops.diff.differences import FlowTopicPairing, compared_acls, wanted_acls
from twinlog.ops.inventory import Inventory
from twinlog.settings.flow import FlowSettings


def acls_found(
    flow: FlowSettings, here: Inventory, there: Inventory, names: FlowTopicPairing, needed: Collection[NeededRight]
) -> list[Finding]:
    """The ACLs that copies lack, and the ACLs that only copies have; `needed` are the rights of the mirror's logins.

    Empty if the ACLs of a cluster are unknown.
    """
    if here.acls is None or there.acls is None:
        return []
    mine = [one for one in needed if one.cluster == flow.target]
    wanted = _of_topics(wanted_acls(here, names))
    lacking = lacking_acls(wanted, there, mine)
    more = extra_acls(_of_topics(compared_acls(there, names)), wanted, here, there, names, mine)
    severity = Severity.WARNING if flow.sync_topic_acls_interval_s is not None else Severity.NOTE
    return [
        *_finding(
            flow,
            severity,
            lacking,
            ("ACL of a topic is missing", "ACLs of topics are missing"),
            "set sync.topic.acls.enabled = true and grant ALTER on the cluster, or add them with kafka-acls.sh",
        ),
        *_finding(
            flow,
            Severity.NOTE,
            more,
            (f"ACL of a copy exists only on {flow.target}", f"ACLs of copies exist only on {flow.target}"),
            "remove them with kafka-acls.sh --remove if they are useless",
        ),
    ]


def lacking_acls(wanted: Iterable[Acl], there: Inventory, needed: Collection[NeededRight]) -> list[Acl]:
    """The wanted ACLs whose effect the target lacks, except for denials of rights that the mirror needs."""
    present = AclIndex(there.acls or ())
    return sorted(
        acl for acl in wanted if not present.gives(acl) and not any(takes_away(acl, right) for right in needed)
    )


def extra_acls(
    present: Iterable[Acl],
    wanted: Collection[Acl],
    here: Inventory,
    there: Inventory,
    names: FlowTopicPairing,
    needed: Collection[NeededRight],
) -> list[Acl]:
    """The ACLs that only copies have, except for ACLs that the mirror or a wanted right needs."""
    same = (names.on_copies(acl) for acl in here.lasting_acls)
    given = AclIndex([*wanted, *(acl for acl in same if acl is not None)])
    rights = [right.as_acl for right in needed]
    useful = AclIndex(rights)
    every = AclIndex(there.acls or ())
    by_principal: dict[str, list[Acl]] = defaultdict(list)
    for acl in wanted:
        by_principal[acl.principal].append(acl)

    def carries(acl: Acl) -> bool:
        some = wanted if acl.principal == EVERYBODY else by_principal.get(acl.principal, ())
        return any(includes(acl, one) and not every.gives(one, without=acl) for one in some)

    return sorted(
        acl
        for acl in present
        if not given.gives(acl)
        and not useful.gives(acl)
        and not any(includes(acl, one) for one in rights)
        and not carries(acl)
    )


def _of_topics(acls: Iterable[Acl]) -> set[Acl]:
    return {acl for acl in acls if acl.resource == ResourceType.TOPIC}


def _finding(
    flow: FlowSettings, severity: Severity, some: Collection[Acl], words: tuple[str, str], way: str
) -> list[Finding]:
    if not some:
        return []
    text = f"{len(some):,} {words[len(some) != 1]}"
    lines = limited(str(acl) for acl in some)
    return [Finding("acl", severity, AuditPart.ACLS, text, way, len(some), flow.name, lines)]

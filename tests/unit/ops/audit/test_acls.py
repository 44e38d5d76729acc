"""An audit compares the meaning of ACLs, and advises nothing that stops the mirror or takes a useful right away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.unit.ops.diff.test_differences import cluster, flow_names
from twinlog.config import load
from twinlog.model.acls import Acl, AclIndex, AclOperation, AclPermissionType, PatternType, ResourceType, includes
from twinlog.ops.acls.needs import NeededRight, needed_rights
from twinlog.ops.acls.rights import USES
from twinlog.ops.audit.acls import acls_found
from twinlog.ops.audit.report import AuditPart, Severity
from twinlog.settings.flow import FlowSettings

ALL, READ, WRITE, DESCRIBE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED

FILE = """\
clusters = east, west
east.bootstrap.servers = e:9092
west.bootstrap.servers = w:9092
east->west.enabled = true
east->west.topics = orders, pay.*
east->west.sync.topic.acls.enabled = false
security.protocol = SASL_PLAINTEXT
sasl.mechanism = PLAIN
sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username="mirror" password="x";
"""


def acl(
    name: str,
    operation: AclOperation,
    principal: str = "User:app",
    permission: AclPermissionType = ALLOW,
    pattern: PatternType = LITERAL,
    host: str = "*",
    kind: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(kind, name, principal, host, operation, permission, pattern)


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> FlowSettings:
    file = tmp_path_factory.mktemp("acls") / "mm2.properties"
    file.write_text(FILE, "utf-8")
    return next(one for one in load(file).flows if one.enabled)


@pytest.fixture(scope="module")
def needed(flow: FlowSettings) -> list[NeededRight]:
    return needed_rights([flow], USES)


def found(
    flow: FlowSettings,
    needed: list[NeededRight],
    here: Iterable[Acl],
    there: Iterable[Acl],
    fence: Iterable[Acl] = (),
) -> tuple[list[str], list[str]]:
    """The lines about missing ACLs, and the lines about ACLs that only copies have."""
    fences = frozenset(one.of_topic for one in fence)
    left = replace(cluster("east", orders=1, pay_a=1), acls=list(here), fences=fences)
    right = replace(cluster("west", east_orders=1, east_pay_a=1), acls=list(there), fences=fences)
    findings = acls_found(flow, left, right, flow_names(), needed)
    assert all((one.part, one.severity) == (AuditPart.ACLS, Severity.NOTE) for one in findings)
    missing = [line for one in findings if "missing" in one.text for line in one.lines]
    more = [line for one in findings if "only on west" in one.text for line in one.lines]
    return missing, more


def test_a_right_of_a_principal_is_missing_only_if_no_acl_of_the_copy_gives_it(
    flow: FlowSettings, needed: list[NeededRight]
) -> None:
    read = acl("orders", READ)
    assert found(flow, needed, [read], []) == ([str(acl("east.orders", READ))], [])
    for given in (
        acl("east.orders", ALL),
        acl("east.", READ, pattern=PREFIXED),
        acl("*", READ),
        acl("east.orders", READ, "User:*"),
    ):
        assert found(flow, needed, [read], [given])[0] == []
    for other in (
        acl("east.orders", DESCRIBE),
        acl("east.orders", READ, "User:bob"),
        acl("east.orders", READ, host="10.0.0.1"),
        acl("east.pay", READ, pattern=PREFIXED),
    ):
        assert found(flow, needed, [read], [other])[0] == [str(acl("east.orders", READ))]
    assert found(flow, needed, [acl("orders", DESCRIBE)], [acl("east.orders", READ)])[0] == []


def test_an_acl_that_carries_a_right_of_its_principal_is_kept(flow: FlowSettings, needed: list[NeededRight]) -> None:
    every = acl("east.orders", ALL)
    assert found(flow, needed, [acl("orders", READ)], [every]) == ([], []), "READ would go with it"
    assert found(flow, needed, [acl("orders", ALL)], [every, acl("east.orders", READ)]) == ([], []), "as on the source"
    assert found(flow, needed, [acl("ord", ALL, pattern=PREFIXED)], [every]) == ([], [])
    assert found(flow, needed, [acl("*", ALL)], [every]) == ([], [])
    assert found(flow, needed, [], [every]) == ([], [str(every)])
    assert found(flow, needed, [acl("orders", READ)], [every, acl("east.orders", READ)])[1] == [str(every)]


def test_the_rights_that_twinlog_asks_for_are_useful(flow: FlowSettings, needed: list[NeededRight]) -> None:
    mine = [acl("east.orders", WRITE, "User:mirror"), acl("east.orders", ALL, "User:mirror")]
    assert found(flow, needed, [], mine) == ([], [])
    foreign = acl("east.orders", WRITE, "User:bob")
    assert found(flow, needed, [], [*mine, foreign]) == ([], [str(foreign)])
    own = acl("east.orders", WRITE, "User:mirror", DENY)
    assert found(flow, needed, [], [own]) == ([], [str(own)])


def test_fences_and_denials_that_would_stop_the_mirror_stay_on_the_source(
    flow: FlowSettings, needed: list[NeededRight]
) -> None:
    fence = acl("orders", WRITE, "User:*", DENY)
    assert found(flow, needed, [fence], []) == ([], []), "it would keep the mirror from its copies"
    assert found(flow, [], [fence], [], [fence]) == ([], []), "twinlog lifts it"
    writers = acl("east.orders", WRITE, "User:bob", DENY)
    assert found(flow, needed, [], [writers], [writers]) == ([], []), "the flow lifts it"
    deny = acl("orders", READ, "User:bob", DENY)
    assert found(flow, needed, [deny, fence], []) == ([str(replace(deny, name="east.orders"))], [])
    assert found(flow, needed, [deny], [acl("east.orders", ALL, "User:bob", DENY)])[0] == []


def test_a_denial_includes_only_equal_operations() -> None:
    deny = acl("a", READ, permission=DENY)
    assert includes(acl("a", ALL, permission=DENY), deny)
    assert not includes(deny, acl("a", DESCRIBE, permission=DENY))
    assert not includes(acl("a", ALL), deny)
    assert includes(acl("a", READ), acl("a", DESCRIBE))


def test_a_name_of_all_topics_is_no_prefix() -> None:
    index = AclIndex([acl("*", READ, kind=ResourceType.GROUP), acl("", READ, pattern=PREFIXED)])
    assert index.gives(acl("a", READ))
    assert not index.gives(acl("*", READ))
    assert index.gives(acl("g", READ, pattern=PREFIXED, kind=ResourceType.GROUP))
    assert not index.gives(acl("a", READ), without=acl("", READ, pattern=PREFIXED))

"""Which rights and quotas keep producers away, and what is restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twinlog.errors import RefusedError
from twinlog.kafka.admin.acls import describe_acls, describe_topic_acls, everyone_allowed_without_acls
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.acls import Acl, AclOperation, AclPermissionType, PatternType, ResourceType, TopicAcl
from twinlog.model.quotas import EVERY_USER, Quota, QuotaEntity
from twinlog.model.topic_names import HeartbeatNames
from twinlog.model.types import Alias, TopicName
from twinlog.ops.switchover.fencing import (
    FIRST_RATE,
    RATE,
    UNLIMITED,
    acls_before,
    acls_data,
    acls_of,
    denials,
    exempt,
    fenced_too,
    kept,
    lasting_acls,
    opened_too,
    plan_fence,
    quotas_before,
    quotas_data,
    quotas_of,
    read_refused_producers,
    refused_producers,
    shared,
    still_ours,
    throttles,
    with_left,
)
from twinlog.ops.switchover.journal import fence_record, other_fences
from twinlog.ops.switchover.model import Data, FenceMethod, MovedTopic, NotReadyError, SwitchoverDirection
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

ORDERS = TopicName("orders")
DENY = TopicAcl(ORDERS, "User:*", "*", AclOperation.WRITE, AclPermissionType.DENY)
PREFIX = TopicAcl(ORDERS, "User:*", "*", AclOperation.WRITE, AclPermissionType.DENY, PatternType.PREFIXED)
READ = TopicAcl(ORDERS, "User:ann", "*", AclOperation.READ, AclPermissionType.ALLOW)
OTHERS = [ORDERS, TopicName("orders-old"), TopicName("mm2-offset-syncs.west.internal")]
NAMES = HeartbeatNames(".", frozenset((Alias("east"), Alias("west"))))


def test_a_topic_is_denied_to_everyone_for_writing_alone() -> None:
    assert denials([ORDERS], OTHERS, [READ], NAMES, carried=False, open_without_acls=False) == ([DENY], [DENY])


def test_a_denial_that_was_there_stays_afterwards() -> None:
    assert denials([ORDERS], OTHERS, [READ, DENY], NAMES, carried=False, open_without_acls=False) == ([DENY], [])


def test_where_literal_rights_are_carried_over_it_is_a_prefix() -> None:
    assert denials([ORDERS], OTHERS, [READ], NAMES, carried=True, open_without_acls=False) == ([PREFIX], [PREFIX])
    assert fenced_too([ORDERS], OTHERS, NAMES) == ["orders-old"]


def test_topics_of_flows_are_never_denied() -> None:
    short = TopicName("m")
    add, _ = denials([short], [short, *OTHERS], [READ], NAMES, carried=True, open_without_acls=False)
    assert [acl.pattern for acl in add] == [PatternType.LITERAL]
    assert fenced_too([short], OTHERS, NAMES) == []


def test_heartbeats_are_never_denied_and_a_topic_of_a_user_is_whatever_its_name_ends_in() -> None:
    west, device = TopicName("west"), TopicName("device")
    here = [west, device, TopicName("west.heartbeats"), TopicName("device.heartbeats")]
    add, _ = denials([west, device], here, [READ], NAMES, carried=True, open_without_acls=False)
    assert [(acl.topic, acl.pattern) for acl in add] == [(device, PatternType.PREFIXED), (west, PatternType.LITERAL)]
    assert fenced_too([west, device], here, NAMES) == ["device.heartbeats"]


def test_principals_that_write_on_the_source_and_not_on_the_target_are_named() -> None:
    def allow(topic: str, who: str = "User:ann", operation: int = AclOperation.WRITE, *, prefix: bool = False) -> Acl:
        pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
        return Acl(ResourceType.TOPIC, topic, who, "*", operation, AclPermissionType.ALLOW, pattern)

    other = MovedTopic(TopicName("a.x"), TopicName("east.a.x"), 1, TopicName(""))
    topics = [MovedTopic(ORDERS, TopicName("east.orders"), 1, ORDERS), other]
    read, fence = allow("orders", operation=AclOperation.READ), replace(allow("orders"), permission=2)
    for here in (allow("orders"), allow("ord", operation=AclOperation.ALL, prefix=True)):
        refused = refused_producers(topics, [here, read, fence], [read, allow("east.orders")])
        assert refused == {"User:ann": [ORDERS]}
        for there in (allow("orders"), allow("o", prefix=True), allow("*", "User:*")):
            assert refused_producers(topics, [here], [there, fence]) == {}
    assert refused_producers(topics, [read], []) == {}
    assert refused_producers(topics, [allow("orders")], [], "User:ann") == {}, "the flow itself"


@pytest.mark.parametrize("lacking", [describe_acls, everyone_allowed_without_acls])
def test_a_target_that_hides_its_rights_leaves_the_producers_unchecked(lacking: Callable[..., Any]) -> None:
    def call(step: Callable[..., Any], *_: Any) -> Any:
        if step is lacking:
            raise RefusedError("cluster west: User:mirror lacks a right on the cluster")
        return None if step is everyone_allowed_without_acls else []

    topics = [MovedTopic(ORDERS, TopicName("east.orders"), 1, ORDERS)]
    here = [Acl(ResourceType.TOPIC, "orders", "User:ann", "*", AclOperation.WRITE, AclPermissionType.ALLOW)]
    unread: list[str] = []
    target = cast("ClusterAdmin", SimpleNamespace(alias="west", client=None, call=call))
    assert read_refused_producers(target, topics, here, "User:mirror", unread) == {}
    assert unread == [
        (
            "WRITE of producers on west is unchecked: cluster west: User:mirror lacks a right on the cluster; "
            "`twinlog acls FILE --for switchover --missing` prints the command that grants it"
        )
    ]


def test_the_first_right_on_an_open_topic_does_not_close_it_to_readers() -> None:
    allow = TopicAcl(ORDERS, "User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW)
    assert denials([ORDERS], OTHERS, [], NAMES, carried=False, open_without_acls=True)[0] == [allow, DENY]
    # Another right is there already: whoever reads has one.
    for acl in (
        READ,
        TopicAcl(TopicName("ord"), "User:ann", "*", AclOperation.READ, AclPermissionType.ALLOW, PatternType.PREFIXED),
    ):
        assert denials([ORDERS], OTHERS, [acl], NAMES, carried=False, open_without_acls=True)[0] == [DENY]


def test_a_wave_keeps_a_topic_open_to_readers_when_another_one_with_its_prefix_is_released() -> None:
    old = TopicName("orders-old")
    theirs, _ = denials([ORDERS], OTHERS, [], NAMES, carried=True, open_without_acls=True)
    add, remove = denials([old], OTHERS, theirs, NAMES, carried=True, open_without_acls=True, passing=theirs)
    assert [(acl.topic, acl.permission) for acl in add] == [
        (old, AclPermissionType.ALLOW),
        (old, AclPermissionType.DENY),
    ]
    assert remove == add
    assert opened_too(remove, OTHERS, lasting_acls(theirs, theirs)) == []


def test_a_right_for_everyone_on_a_prefix_opens_no_topic_that_has_its_own() -> None:
    own = TopicAcl(TopicName("orders-old"), "User:ann", "*", AclOperation.READ, AclPermissionType.ALLOW)
    add, _ = denials([ORDERS], OTHERS, [own], NAMES, carried=True, open_without_acls=True)
    assert opened_too(add, OTHERS, [own]) == ["orders-old"]
    assert opened_too(add, OTHERS, []) == []
    add, _ = denials([ORDERS], OTHERS, [own], NAMES, carried=False, open_without_acls=True)
    assert opened_too(add, OTHERS, [own]) == []


def test_a_quota_that_somebody_set_after_the_fence_stays() -> None:
    ann, copier = QuotaEntity("ann"), QuotaEntity("", "copier")
    wanted, restore = throttles([Quota(ann, 5e6), Quota(EVERY_USER, 8e6)], set(), {"copier"})
    assert still_ours(wanted, wanted, restore) == restore
    # Fast producers meet another rate first; the process may be killed then.
    first = [Quota(one.entity, FIRST_RATE if one.rate == RATE else one.rate) for one in wanted]
    assert still_ours(first, wanted, restore) == restore
    changed = [Quota(ann, 1.0), Quota(copier, UNLIMITED)]
    assert still_ours(changed, wanted, restore) == [Quota(copier, None), Quota(QuotaEntity("ann", "copier"), None)]


def test_every_quota_is_the_lowest_but_for_the_flows() -> None:
    ann, flow, app = QuotaEntity("ann"), QuotaEntity("flow"), QuotaEntity("ann", "app")
    wanted, restore = throttles([Quota(ann, 5e6), Quota(flow, 7e6), Quota(app, 1e6)], {"flow"}, set())
    assert {quota.entity: quota.rate for quota in wanted} == {EVERY_USER: RATE, ann: RATE, app: RATE, flow: UNLIMITED}
    assert {quota.entity: quota.rate for quota in restore} == {EVERY_USER: None, ann: 5e6, app: 1e6, flow: 7e6}
    # The flows are never without theirs.
    assert wanted[0].entity == flow


def test_without_logins_client_ids_are_exempt() -> None:
    wanted, restore = throttles([Quota(EVERY_USER, 100.0)], set(), {"copier"})
    assert wanted == [Quota(QuotaEntity("", "copier"), UNLIMITED), Quota(EVERY_USER, RATE)]
    assert restore == [Quota(QuotaEntity("", "copier"), None), Quota(EVERY_USER, 100.0)]


def test_the_acls_of_a_fence_whose_journal_is_lost_are_taken_away_with_the_next_one() -> None:
    other = TopicAcl(TopicName("gone"), "User:*", "*", AclOperation.WRITE, AclPermissionType.DENY)
    left = {"add": acls_data([DENY, other]), "remove": acls_data([DENY, other])}
    before = acls_before([READ, DENY, other], left)
    assert before == [READ]
    add, remove = denials([ORDERS], OTHERS, before, NAMES, carried=False, open_without_acls=False)
    plan = with_left({"add": acls_data(add), "remove": acls_data(remove)}, left)
    assert acls_of(plan["add"]) == [DENY]
    assert acls_of(plan["remove"]) == [DENY, other]
    assert kept(plan) == []
    # Somebody else's stays, and is named.
    assert kept({"add": acls_data([DENY]), "remove": []}) == [ORDERS]


def test_the_quotas_of_a_fence_whose_journal_is_lost_are_restored_with_the_next_one() -> None:
    ann, bob, flow = QuotaEntity("ann"), QuotaEntity("bob"), QuotaEntity("flow")
    wanted, restore = throttles([Quota(ann, 5e6)], {"flow"}, set())
    left = {"set": quotas_data(wanted), "restore": quotas_data(restore)}
    # Bob's came since.
    before = quotas_before([*wanted, Quota(bob, 1e6)], left)
    assert {one.entity: one.rate for one in before} == {ann: 5e6, bob: 1e6}
    again, after = throttles(before, set(), {"copier"})
    plan = with_left({"set": quotas_data(again), "restore": quotas_data(after)}, left)
    rates = {one.entity: one.rate for one in quotas_of(plan["restore"])}
    copiers = dict.fromkeys((QuotaEntity(user, "copier") for user in ("", "ann", "bob")), None)
    assert rates == {EVERY_USER: None, ann: 5e6, bob: 1e6, flow: None, **copiers}
    assert {one.entity for one in quotas_of(plan["set"])} == rates.keys()
    # A fence of another kind takes it away as well.
    assert with_left({"add": [], "remove": []}, left)["restore"] == left["restore"]


def test_a_login_whose_user_only_brokers_know_is_exempt_by_its_client_id_whoever_it_is() -> None:
    mirror, all_of_ann = QuotaEntity("CN=mirror"), QuotaEntity("ann", "")
    present = [Quota(mirror, 5e6), Quota(all_of_ann, 1e6), Quota(QuotaEntity("CN=mirror", "copier"), 3e6)]
    wanted, restore = throttles(present, {"flow"}, {"copier"})
    rates = {quota.entity: quota.rate for quota in wanted}
    exempt = [QuotaEntity(user, "copier") for user in ("", "CN=mirror", "ann")]
    assert rates == {
        **dict.fromkeys((*exempt, QuotaEntity("flow")), UNLIMITED),
        **dict.fromkeys((EVERY_USER, mirror, all_of_ann), RATE),
    }
    before = {quota.entity: quota.rate for quota in restore}
    assert (before[QuotaEntity("CN=mirror", "copier")], before[QuotaEntity("ann", "copier")]) == (3e6, None)
    # They are exempt before anybody is throttled.
    assert [quota.rate for quota in wanted] == [UNLIMITED] * 4 + [RATE] * 3


def flows(**sasl: str | None) -> tuple[FlowSettings, FlowSettings]:
    """A flow and the one back; the clients of `sasl` have a user name on the source."""

    def client(name: str) -> ClientSettings:
        return replace(ClientSettings(("nowhere:9092",)), client_id=name, sasl_username=sasl.get(name))

    def flow(one: str, other: str, names: tuple[str, str, str, str]) -> FlowSettings:
        consumer, producer, here, there = map(client, names)
        return FlowSettings(
            source=Alias(one),
            target=Alias(other),
            consumer=ConsumerSettings(consumer),
            producer=ProducerSettings(producer),
            source_admin=AdminSettings(here),
            target_admin=AdminSettings(there),
        )

    return flow("a", "b", ("reads", "x", "here", "y")), flow("b", "a", ("z", "writes", "w", "there"))


def test_client_ids_count_as_soon_as_one_login_has_no_user_name() -> None:
    named = dict.fromkeys(("reads", "here", "writes", "there"), "flow")
    assert exempt(*flows(**named)) == ({"flow"}, set())
    users, clients = exempt(*flows(**{**named, "writes": None}))
    assert users == {"flow"}
    assert any("writes" in client for client in clients)


def test_two_waves_over_one_topic_share_a_denial() -> None:
    wave = {"add": acls_data([DENY]), "remove": acls_data([DENY])}
    assert shared({"add": acls_data([DENY, PREFIX])}, wave) == [ORDERS]
    assert shared({"add": acls_data([PREFIX])}, wave) == []
    # By hand: it stays when either is lifted.
    assert shared({"add": acls_data([DENY])}, {"add": acls_data([DENY]), "remove": []}) == []


def test_the_journal_tells_the_fences_of_other_moves() -> None:
    plan = {"remove": acls_data([DENY])}
    own, wave = SwitchoverDirection(Alias("b"), Alias("a")), SwitchoverDirection(Alias("b"), Alias("a"), "one")
    third = SwitchoverDirection(Alias("c"), Alias("a"))
    records = [fence_record(ends, plan) for ends in (own, wave, third)]
    assert other_fences(own, records) == {"wave one of switchover a->b": plan, "switchover a->c": plan}
    assert other_fences(wave, [*records, fence_record(third, None)]) == {"switchover a->b": plan}


def test_what_is_written_down_comes_back() -> None:
    assert acls_of(acls_data([DENY, PREFIX, READ])) == [DENY, PREFIX, READ]
    quotas = [Quota(EVERY_USER, RATE), Quota(QuotaEntity("ann", "app"), None), Quota(QuotaEntity(None, "x"), 3.5)]
    assert quotas_of(quotas_data(quotas)) == quotas
    assert [str(quota) for quota in quotas] == [
        "producer_byte_rate = 10 for user <default>",
        "no producer_byte_rate for user ann client-id app",
        "producer_byte_rate = 3.5 for client-id x",
    ]


def planned(acls: Sequence[TopicAcl], *, open_to_all: bool | None) -> Data:
    """The plan of a fence on a cluster with these rights, whose brokers may hide whether a topic is open to all."""
    answers: Mapping[Callable[..., Any], object] = {
        describe_topic_acls: list(acls),
        everyone_allowed_without_acls: open_to_all,
    }
    cluster = SimpleNamespace(
        alias="east", client=None, call=lambda step, *_: answers[step], topics=lambda: dict.fromkeys(OTHERS)
    )
    plain = ClientSettings(("host:9092",))
    flow = FlowSettings(
        Alias("east"),
        Alias("west"),
        ConsumerSettings(plain),
        ProducerSettings(plain),
        AdminSettings(plain),
        AdminSettings(plain),
        sync_topic_acls_interval_s=None,
    )
    return plan_fence(cast(ClusterAdmin, cluster), FenceMethod.ACL, [ORDERS], flow, flow, {}, [], NAMES)


def test_a_topic_without_acls_gets_no_denial_where_brokers_hide_whether_it_is_open() -> None:
    """The denial would be its first right, and would close it to its readers."""
    with pytest.raises(NotReadyError, match="orders: lacks an ACL, and brokers hide"):
        planned([], open_to_all=None)
    assert acls_of(planned([READ], open_to_all=None)["add"]) == [DENY]
    assert acls_of(planned([], open_to_all=False)["add"]) == [DENY]
    everything = replace(DENY, operation=AclOperation.ALL, permission=AclPermissionType.ALLOW)
    assert acls_of(planned([], open_to_all=True)["add"]) == [everything, DENY]

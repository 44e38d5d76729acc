"""Two processes of a flow find out which settings differ between them, and send nobody a secret."""

from __future__ import annotations

from dataclasses import replace

from twinlog.config.keys.table import CLIENTS, CONNECTOR, SECURITY, WORKER
from twinlog.model.types import Alias
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import CustomClass, FlowSettings
from twinlog.worker.election.member import differing, fingerprint

CLIENT = ClientSettings(("h:1",), "SASL_PLAINTEXT", "PLAIN", "mirror", "secret-1")
FLOW = FlowSettings(
    Alias("east"),
    Alias("west"),
    ConsumerSettings(CLIENT),
    ProducerSettings(CLIENT),
    AdminSettings(CLIENT),
    AdminSettings(CLIENT),
)


def changes(other: FlowSettings) -> tuple[str, ...]:
    return differing(fingerprint(FLOW), fingerprint(other))


def test_every_name_is_a_key_that_a_file_may_have() -> None:
    for name in fingerprint(FLOW):
        alias, _, key = name.partition(".")
        if alias not in ("east", "west"):
            assert name in CONNECTOR.exact or name in WORKER.exact, name
            continue
        role, _, own = key.partition(".")
        known = CLIENTS[role].exact if role in CLIENTS else {**SECURITY.exact, **CLIENTS["admin"].exact}
        assert (own if role in CLIENTS else key) in known, name


def test_the_same_settings_do_not_differ() -> None:
    assert changes(replace(FLOW)) == ()


def test_what_differs_is_named_by_its_key() -> None:
    committed = replace(FLOW.consumer, isolation_level="read_committed")
    elsewhere = replace(FLOW.producer, client=replace(CLIENT, bootstrap_servers=("h:2",)))
    other = replace(
        FLOW,
        topics=("orders",),
        refresh_groups_interval_s=None,
        consumer=committed,
        producer=elsewhere,
        lease_seconds=9,
    )
    assert changes(other) == (
        "east.consumer.isolation.level",
        "refresh.groups.interval.seconds",
        "topics",
        "twinlog.lease.seconds",
        "west.bootstrap.servers",
    )


def test_a_class_is_compared_by_its_path_and_not_by_where_it_stands() -> None:
    def with_class(path: str, line: int) -> FlowSettings:
        return replace(FLOW, policy="custom", policy_class=CustomClass(path, "k", f"f{line}", line))

    one = fingerprint(with_class("a:B", 1))
    assert differing(one, fingerprint(with_class("a:B", 2))) == ()
    assert differing(one, fingerprint(with_class("a:C", 1))) == ("replication.policy.class",)


def test_credentials_and_client_ids_are_each_hosts_own() -> None:
    own = replace(CLIENT, sasl_username="other", sasl_password="secret-2", client_id="mine")
    other = replace(FLOW, consumer=replace(FLOW.consumer, client=own))
    assert changes(other) == ()


def test_a_key_that_one_of_the_two_does_not_know_counts() -> None:
    assert differing({"a": "1"}, {"a": "1", "b": "2"}) == ("b",)

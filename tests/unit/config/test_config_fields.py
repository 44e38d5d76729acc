"""Each field of the settings names the key that fills it, and both have one default."""

from __future__ import annotations

from dataclasses import fields

import pytest

from twinlog.config.keys.table import ADMIN, CONNECTOR, CONSUMER, PROCESS, PRODUCER, WORKER, WORKER_FILE, KeyTable
from twinlog.config.text.values import parse_value
from twinlog.settings.client import ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.settings.oauth import AssertionSettings, TokenSettings
from twinlog.settings.open_id import OpenIdSettings
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.tls import TlsSettings
from twinlog.settings.transform import FailedRecordSettings
from twinlog.settings.worker import (
    DriverListener,
    GroupSettings,
    MetricsSettings,
    RestSettings,
    ServedConsole,
    WorkerSettings,
)
from twinlog.settings.written import key_of, switch_of, written

WHERE: list[tuple[type, tuple[KeyTable, ...]]] = [
    (FlowSettings, (CONNECTOR, WORKER)),
    (ConsumerSettings, (CONSUMER,)),
    (ProducerSettings, (PRODUCER,)),
    (ClientSettings, (ADMIN,)),
    (TlsSettings, (ADMIN,)),
    (TokenSettings, (ADMIN,)),
    (AssertionSettings, (ADMIN,)),
    (WorkerSettings, (WORKER_FILE,)),
    (GroupSettings, (WORKER_FILE,)),
    (RestSettings, (WORKER_FILE,)),
    (MetricsSettings, (WORKER_FILE,)),
    (MetricsSettings, (PROCESS,)),
    (DriverListener, (WORKER_FILE,)),
    (DriverListener, (PROCESS,)),
    (ServedConsole, (WORKER_FILE,)),
    (ServedConsole, (PROCESS,)),
    (OpenIdSettings, (WORKER_FILE,)),
    (OpenIdSettings, (PROCESS,)),
    (FailedRecordSettings, (CONNECTOR,)),
]
NOT_WRITTEN = {
    # Aliases, clients, and what comes of several keys.
    *("source", "target", "aliases", "consumer", "producer", "source_admin", "target_admin", "client"),
    *("connector_name", "kind", "class_settings", "sasl_username", "tls", "tokens", "subject"),
    # Options of the JAAS line, and claims of several keys.
    *("assertion", "lifetime_s", "extensions", "grant_type", "audience", "username", "password", "refresh_token"),
    *("refresh_token_file", "assertion_type", "text", "may_be_opaque", "longest_s", "claims", "ready"),
    *("group", "rest", "metrics", "driver", "console", "https", "admin_https", "client_auth"),
    *("failed_records", "open_id"),
}


@pytest.mark.parametrize(("kind", "tables"), WHERE)
def test_each_field_names_a_key_that_a_file_may_have(kind: type, tables: tuple[KeyTable, ...]) -> None:
    assert {field.name for field in fields(kind)} - NOT_WRITTEN == written(kind).keys()
    for how in written(kind).values():
        for key in filter(None, (how.key, how.switch)):
            assert sum(key in table.exact for table in tables) == 1, key


@pytest.mark.parametrize(("kind", "tables"), WHERE)
def test_what_nobody_writes_has_the_default_of_its_key(kind: type, tables: tuple[KeyTable, ...]) -> None:
    defaults = {field.name: field.default for field in fields(kind)}
    for name, how in written(kind).items():
        if how.plain:
            key = next(table.exact[how.key] for table in tables if how.key in table.exact)
            value = "" if key.default is None else parse_value(key, key.default)
            switch = next((table.exact[how.switch] for table in tables if how.switch in table.exact), None)
            off = defaults[name] is None and (value == "" if switch is None else switch.default == "false")
            assert off or defaults[name] == (PerTopic(value) if key.per_topic else value), name


def test_messages_name_what_a_file_says() -> None:
    assert key_of(FlowSettings, "gap_policy") == "twinlog.gap.policy"
    assert switch_of(FlowSettings, "emit_heartbeats_interval_s") == "emit.heartbeats.enabled"

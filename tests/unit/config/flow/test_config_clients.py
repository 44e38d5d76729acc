"""What the keys of consumers, producers and admin clients come to, for each client that they reach."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import pytest

from tests.unit.config.said import said
from twinlog.config import load
from twinlog.errors import ConfigError
from twinlog.settings.flow import FlowSettings

BASE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"
READS, WRITES = "consumer.client", "producer.client"
SOURCE, TARGET = "source_admin.client", "target_admin.client"


def read(folder: Path, text: str) -> FlowSettings:
    file = folder / "mm2.properties"
    file.write_text(BASE + text, "utf-8")
    config = load(file)
    assert said(config.warnings) == ()
    return config.flows[0]


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("retry.backoff.max.ms", "5000", "retry_backoff_max_ms", 5000),
        ("connections.max.idle.ms", "-1", "connections_max_idle_ms", -1),
        ("socket.connection.setup.timeout.ms", "2000", "connection_setup_timeout_ms", 2000),
        ("socket.connection.setup.timeout.max.ms", "4000", "connection_setup_timeout_max_ms", 4000),
        ("client.dns.lookup", "resolve_canonical_bootstrap_servers_only", "canonical_bootstrap", True),
        ("client.dns.lookup", "use_all_dns_ips", "canonical_bootstrap", False),
        ("metadata.recovery.strategy", "NONE", "rebootstrap", False),
        ("metadata.recovery.strategy", "Rebootstrap", "rebootstrap", True),
        ("metadata.recovery.rebootstrap.trigger.ms", "0", "rebootstrap_trigger_ms", 0),
        ("reconnect.backoff.max.ms", "7000", "reconnect_backoff_max_ms", 7000),
    ],
)
def test_a_key_of_every_client(tmp_path: Path, key: str, value: str, field: str, expected: object) -> None:
    for prefix, client in (("a.consumer", READS), ("b.producer", WRITES), ("a.admin", SOURCE), ("b.admin", TARGET)):
        flow = read(tmp_path, f"{prefix}.{key} = {value}\n")
        found = {name: getattr(attrgetter(name)(flow), field) for name in (READS, WRITES, SOURCE, TARGET)}
        default = getattr(attrgetter(READS)(read(tmp_path, "")), field)
        assert found == {READS: default, WRITES: default, SOURCE: default, TARGET: default} | {client: expected}


@pytest.mark.parametrize(
    ("line", "setting", "expected"),
    [
        ("a.consumer.client.rack = eu-1", "consumer.client_rack", "eu-1"),
        ("a.consumer.client.rack = eu-1  ", "consumer.client_rack", "eu-1"),
        ("a.consumer.default.api.timeout.ms = 9", f"{READS}.default_api_timeout_ms", 9),
        ("b.admin.default.api.timeout.ms = 9", f"{TARGET}.default_api_timeout_ms", 9),
        ("b.admin.retries = 4", f"{TARGET}.retries", 4),
        ("b.producer.retries = 4", "producer.retries", 4),
        ("b.producer.retries = 4", f"{WRITES}.retries", 2**31 - 1),
        ("b.producer.delivery.timeout.ms = 30000", "producer.delivery_timeout_ms", 30_000),
        # Without a longest pause of its own a first pause is every pause.
        ("b.admin.reconnect.backoff.ms = 3000", f"{TARGET}.reconnect_backoff_max_ms", 3000),
        ("b.admin.bootstrap.controllers =", f"{TARGET}.bootstrap_servers", ("b:1",)),
    ],
)
def test_a_key_of_one_client(tmp_path: Path, line: str, setting: str, expected: object) -> None:
    assert attrgetter(setting)(read(tmp_path, line + "\n")) == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a.consumer.client.dns.lookup = default", "use_all_dns_ips or resolve_canonical_bootstrap_servers_only"),
        ("a.consumer.metadata.recovery.strategy = never", "rebootstrap or none"),
        ("b.producer.retries = -1", "is too small; write a whole number of 0 or more"),
        ("b.producer.delivery.timeout.ms = 29999", "write milliseconds as a whole number of 30000 or more"),
        ("b.admin.bootstrap.controllers = b:2", "an empty text, because brokers are asked (bootstrap.servers)"),
    ],
)
def test_refused(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as raised:
        read(tmp_path, line + "\n")
    assert "mm2.properties:5" in str(raised.value)

"""The key table agrees with itself, with the settings tasks receive, and with the page in docs/."""

from __future__ import annotations

from collections import Counter
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from twinlog.config import load
from twinlog.config.keys.key import Effect, Key
from twinlog.config.keys.process import PROCESS_KEYS
from twinlog.config.keys.reference import pages
from twinlog.config.keys.table import ALL_KEYS, CLIENTS, CONNECTOR, CONNECTOR_KEYS, PROCESS, RESERVED_ALIASES, WORKER
from twinlog.config.keys.worker import WORKER_KEYS
from twinlog.config.text.values import parse_value
from twinlog.settings.client import ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

DOCS = Path(__file__).parents[4] / "docs"


@pytest.mark.parametrize("name", pages())
def test_a_page_is_up_to_date(name: str) -> None:
    assert pages()[name].startswith("# ")
    assert (DOCS / name).read_text("utf-8") == pages()[name], "run: python -m twinlog.config.keys.reference docs"


def test_each_key_is_on_the_page_of_its_effect() -> None:
    effective, ignored = pages()["configuration.md"], pages()["ignored-keys.md"]
    for key in ALL_KEYS:
        page, cell = (effective, f"| `{key.name}`") if key.effect is Effect.WORKS else (ignored, f"`{key.name}`")
        assert cell in page, key.name


@pytest.mark.parametrize("key", ALL_KEYS, ids=lambda key: f"{key.level.name}:{key.name}")
def test_a_key_can_hold_its_own_default(key: Key) -> None:
    if key.default is not None:
        parse_value(key, key.default)
    assert key.doc.endswith(".")


def test_no_place_knows_a_key_twice() -> None:
    for keys in (PROCESS_KEYS, CONNECTOR_KEYS, WORKER_KEYS):
        assert [name for name, count in Counter(key.name for key in keys).items() if count > 1] == []
    assert set(PROCESS.exact) & set(CONNECTOR.exact) == set()


def test_defaults_are_those_of_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n")
    flow = load(file).flows[0]
    for settings, kind in (
        (flow, FlowSettings),
        (flow.consumer, ConsumerSettings),
        (flow.producer, ProducerSettings),
        (flow.source_admin.client, ClientSettings),
    ):
        for field in fields(kind):
            if field.default is not MISSING and field.name != "client_id":
                assert getattr(settings, field.name) == field.default, field.name


def test_prefixes_answer_for_what_they_cover() -> None:
    assert PROCESS.find_key("config.providers.file.param.allowed.paths") is PROCESS.find_key("config.providers.*")
    assert WORKER.find_key("offset.storage.topic") is WORKER.exact["offset.storage.topic"]
    assert WORKER.find_key("offset.storage.cleanup.policy") is not None
    assert WORKER.find_key("offset.storages") is None
    assert CLIENTS["consumer"].find_key("sasl.jaas.config") is not None
    assert CLIENTS["consumer"].find_key("acks") is None


def test_common_aliases_are_free() -> None:
    assert not {"source", "target", "primary", "secondary", "east", "west", "a", "b"} & RESERVED_ALIASES
    assert {"admin", "consumer", "producer", "config", "ssl", "sasl", "topics", "twinlog"} <= RESERVED_ALIASES

"""Levels of loggers, over HTTP and by Connect's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.unit.connect.serving import Client, kept_levels, serving
from twinlog.connect.rest.levels import Levels

REST = "org.apache.kafka.connect.runtime.rest"


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    with kept_levels():
        yield


@pytest.fixture
def client() -> Iterator[Client]:
    with serving() as client:
        yield client


def test_a_level_is_set_by_connects_name(client: Client) -> None:
    before = client.get(f"/admin/loggers/{REST}").json
    assert before["last_modified"] is None
    answer = client.ask("PUT", f"/admin/loggers/{REST}", {"level": "debug"})
    assert (answer.status, answer.json) == (200, [REST, f"{REST}.RestServer"])
    assert logging.getLogger("twinlog.connect.rest").level == logging.DEBUG
    assert client.get("/admin/loggers").json[REST] == client.get(f"/admin/loggers/{REST}").json
    after = client.get(f"/admin/loggers/{REST}").json
    assert after["level"] == "DEBUG"
    assert after["last_modified"] > 1_700_000_000_000


@pytest.mark.parametrize("name", ["root", "ROOT"])
def test_the_root_is_all_loggers(client: Client, name: str) -> None:
    logging.getLogger("py4j.java_gateway").setLevel(logging.CRITICAL)
    changed = client.ask("PUT", f"/admin/loggers/{name}", {"level": "TRACE"}).json
    assert {"root", "org.apache.kafka.connect", "twinlog.connect.rest.server"} <= set(changed)
    assert changed == sorted(changed)
    assert client.get("/admin/loggers/root").json["level"] == "TRACE"
    # What these log may be a secret.
    assert not [one for one in changed if one.startswith(("py4j", "kafka"))]
    assert logging.getLogger("py4j.java_gateway").level == logging.CRITICAL
    assert client.ask("PUT", "/admin/loggers/py4j", {"level": "DEBUG"}).json == []


def test_a_logger_of_any_name_is_made(client: Client) -> None:
    assert client.get("/admin/loggers/com.any").status == 404
    assert client.ask("PUT", "/admin/loggers/com.any", {"level": "OFF"}).json == ["com.any"]
    assert client.get("/admin/loggers/com.any").json["level"] == "OFF"
    assert not logging.getLogger("com.any").isEnabledFor(logging.CRITICAL)


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 400), ({"level": None}, 400), ({"level": "LOUD"}, 404), ({"level": 3}, 404), ([], 400), ({"level": {}}, 400)],
)
def test_what_is_no_level(client: Client, body: object, status: int) -> None:
    answer = client.ask("PUT", "/admin/loggers/net.none", body)
    assert answer.status == status
    assert answer.message


def test_the_group_is_told(client: Client) -> None:
    assert client.ask("PUT", "/admin/loggers/a.b?scope=Cluster", {"level": "warn"}).status == 204
    assert client.herder.levels == {"a.b": "WARN"}
    assert client.ask("PUT", "/admin/loggers/a.b?scope=other", {"level": "off"}).json == ["a.b"]
    assert client.ask("PUT", "/admin/loggers/a.b", {"level": "OFF"}).json == []


def test_levels_have_the_names_of_log4j() -> None:
    levels = Levels()
    assert levels.set_level("net.level", "LOUD", 1) == []
    assert levels.set_level("net.level", "warn", 1) == ["net.level"]
    for name in ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"):
        levels.set_level("net.level", name, 1)
        assert levels.get_level("net.level") == (name, 1)
    logging.getLogger("net.other").setLevel(logging.WARNING + 1)
    assert levels.list_levels()["net.other"] == ("WARN", None)

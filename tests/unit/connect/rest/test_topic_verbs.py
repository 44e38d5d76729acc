"""`/connectors/{name}/twinlog/topics`: what is asked of a herder, and how that is answered."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.connect.serving import Client, afresh
from twinlog.worker.connectors.model import TopicControlRequest

PATH = "/connectors/c/twinlog/topics"


@pytest.fixture
def client(running: Client) -> Client:
    return afresh(running)


def test_topics_are_listed(client: Client) -> None:
    assert client.get(PATH).json == {"flow": "c", "topics": []}
    assert client.get("/connectors/x/twinlog/topics").status == 404
    assert client.ask("PUT", PATH, {}).status == 405


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({"topics": ["orders"]}, TopicControlRequest("skip-to", ("orders",))),
        (
            {
                "topics": ["orders", "l.*"],
                "partitions": [3, 0],
                "to": "latest",
                "id": 7,
                "confirm": True,
                "dry_run": False,
            },
            TopicControlRequest("skip-to", ("orders", "l.*"), (3, 0), ("latest", ""), "7", True, False),
        ),
        ({"topics": ["o"], "to": {"offset": 12}}, TopicControlRequest("skip-to", ("o",), to=("offset", "12"))),
        (
            {"topics": ["o"], "to": {"time": "2026-11-01"}},
            TopicControlRequest("skip-to", ("o",), to=("time", "2026-11-01")),
        ),
        ({"topics": ["o"], "dry_run": True, "partitions": None}, TopicControlRequest("skip-to", ("o",), dry_run=True)),
    ],
)
def test_a_body_is_read(client: Client, body: Any, asked: TopicControlRequest) -> None:
    answer = client.ask("PUT", f"{PATH}/skip-to", body)
    assert (answer.status, answer.json) == (200, {"verb": "skip-to", "result": "applied"})
    assert client.herder.asked == [asked]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "'topics' must be a JSON list"),
        ({"topics": []}, "'topics' must be a JSON list"),
        ({"topics": "orders"}, "'topics' must be a JSON list"),
        ({"topics": [3]}, "'topics' must be a JSON list"),
        ({"topics": ["o"], "partitions": ["3"]}, "'partitions' must be a JSON list of numbers"),
        ({"topics": ["o"], "partitions": [-1]}, "'partitions' must be a JSON list of numbers"),
        ({"topics": ["o"], "partitions": [10**4000]}, "'partitions' must be a JSON list of numbers"),
        ({"topics": ["o"], "to": {"offset": "1" * 5000}}, "'to' must be"),
        ({"topics": ["o"], "to": "yesterday"}, "'to' must be"),
        ({"topics": ["o"], "to": {"offset": 1, "time": 2}}, "'to' must be"),
        ({"topics": ["o"], "to": 5}, "'to' must be"),
        ({"topics": ["o"], "confirm": "yes"}, "'confirm' must be true or false"),
        ({"topics": ["o"], "sure": True}, "has the field 'sure'"),
    ],
)
def test_a_body_of_another_shape_is_refused(client: Client, body: Any, message: str) -> None:
    answer = client.ask("PUT", f"{PATH}/skip-to", body)
    assert answer.status == 400
    assert message in answer.message
    assert client.herder.asked == []


@pytest.mark.parametrize("verb", ["pause", "resume", "restart-from", "skip-to", "accept-gap", "release"])
def test_every_verb_has_a_resource(client: Client, verb: str) -> None:
    assert client.ask("PUT", f"{PATH}/{verb}", {"topics": ["o"]}).json["verb"] == verb
    assert client.get(f"{PATH}/{verb}").status == 405


def test_another_verb_has_none(client: Client) -> None:
    assert client.ask("PUT", f"{PATH}/fly", {"topics": ["o"]}).status == 404


@pytest.mark.parametrize(("result", "status"), [("requested", 202), ("begun", 202), ("applied", 200), ("refused", 200)])
def test_what_is_not_done_yet_is_accepted(client: Client, result: str, status: int) -> None:
    client.herder.result = result
    assert client.ask("PUT", f"{PATH}/pause", {"topics": ["o"]}).status == status

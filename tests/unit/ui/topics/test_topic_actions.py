"""Commands for topics from their pages: the effect, the confirmation, the outcome, and the line of the audit."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.unit.ui.browser import DEADLINE_S, Answer, Browser
from tests.unit.ui.fakes import FLOW, FakeSources, topic
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.errors import ClusterError
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.ops.topics.reader import TopicsReader
from twinlog.ui.app import console_app
from twinlog.ui.pages.topics.actions import TopicAction
from twinlog.ui.site import ACTIONS_AT_A_TIME, ConsoleSettings
from twinlog.worker.control.model import LogPlace, LogPlaceKind, PartitionMove, TopicVerb

ORDERS = TopicPartition(TopicName("orders.v1"), 0)
SKIP = PartitionMove(ORDERS, SourceOffset(4), SourceOffset(10), True, passed=6)
FIELDS = {"flow": FLOW, "topic": "orders.v1", "verb": "skip-to", "place": "latest", "value": "", "partitions": "0"}


@pytest.fixture
def skipping(sources: FakeSources) -> None:
    sources.only.topics = [topic("orders.v1")]
    sources.only.moves = [SKIP]


def confirm(browser: Browser, **changes: str) -> Answer:
    return browser.get(f"/ui/topic/confirm?{urlencode({**FIELDS, **changes})}")


def send(browser: Browser, token: str, /, **changes: str) -> Answer:
    return browser.post("/ui/topic/act", {**FIELDS, "id": "id-1", "typed": "orders.v1", "token": token} | changes)


@pytest.mark.usefixtures("skipping")
def test_the_loss_is_shown_before_the_confirmation_that_names_the_topic(browser: Browser, sources: FakeSources) -> None:
    page = confirm(browser)
    assert page.status == 200
    assert "1 partition: 6 source offsets will be passed over and never copied" in page.text
    assert "6 source offsets will never be on the target" in page.text
    assert "Type the name orders.v1 to confirm" in page.text
    assert sources.only.submitted == []
    twin = browser.json(f"/ui/topic/confirm?{urlencode(FIELDS)}")
    assert (twin["passed_over"], twin["copied_again"], twin["changes"]) == (6, 0, True)


@pytest.mark.usefixtures("skipping")
def test_a_confirmed_command_is_written_once_and_its_outcome_is_shown(
    browser: Browser, sources: FakeSources, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    token = confirm(browser).token
    answer = send(browser, token)
    assert answer.status == 303
    assert send(browser, token).headers["location"] == answer.headers["location"]
    (command,) = sources.only.submitted
    assert (command.id, command.verb, command.place) == ("id-1", TopicVerb.SKIP_TO, LogPlace(LogPlaceKind.LATEST))
    (selector,) = command.selectors
    assert (selector.pattern, selector.partitions) == ("orders[.]v1", (0,))
    assert not selector.has_topic(TopicName("orders-v1"))
    page = browser.get(answer.headers["location"])
    assert "applied" in page.text
    assert "6 source offsets are passed over and never copied" in page.text
    assert "skip-to latest orders[.]v1 partition 0" in browser.get("/ui/topic?flow=a-%3Eb&topic=orders.v1").text
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0] == (
        'console: user="-" address="127.0.0.1" action="skip-to" flow="a->b" topic="orders.v1" id="id-1" '
        'place="latest" partitions="0" outcome="applied"'
    )


@pytest.mark.usefixtures("skipping")
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"typed": ""}, 400),
        ({"typed": "orders"}, 400),
        ({"id": ""}, 400),
        ({"id": "x" * 100}, 400),
        ({"verb": "delete"}, 400),
        ({"place": ""}, 400),
        ({"place": "offset", "value": "-1"}, 400),
        ({"place": "offset", "value": "9" * 30}, 400),
        ({"place": "time", "value": "yesterday"}, 400),
        ({"place": "time", "value": "1900-01-01"}, 400),
        ({"partitions": "a"}, 400),
        ({"flow": "nothing"}, 404),
        ({"topic": "", "typed": ""}, 400),
        ({"topic": ".*", "typed": ".*"}, 400),
        ({"topic": "orders|logs", "typed": "orders|logs"}, 400),
        ({"token": "x"}, 403),
    ],
)
def test_a_wrong_form_writes_nothing(
    browser: Browser, sources: FakeSources, changes: dict[str, str], status: int
) -> None:
    token = confirm(browser).token
    assert send(browser, token, **changes).status == status
    assert sources.only.submitted == []


@pytest.mark.usefixtures("skipping")
@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"place": "offset", "value": "-1"}, "Write the offset as a number; found '-1'."),
        ({"place": "time", "value": "yesterday"}, "The time 'yesterday' is unknown"),
        ({"place": "", "value": "7"}, "Choose a place"),
        ({"partitions": "a"}, "Write partitions as numbers"),
    ],
)
def test_a_mistake_comes_back_with_its_form(browser: Browser, changes: dict[str, str], mistake: str) -> None:
    page = confirm(browser, **changes)
    assert page.status == 400
    assert mistake in page.text.replace("&#39;", "'")
    for name in ("verb", "partitions", "place", "value"):
        assert page.fields[name] == [{**FIELDS, **changes}[name]], name
    twin = browser.get(f"/ui/api/topic/confirm?{urlencode({**FIELDS, **changes})}").json
    assert (twin["error_code"], twin["message"].startswith(mistake)) == (400, True)


@pytest.mark.usefixtures("skipping")
def test_a_name_that_was_typed_wrong_is_typed_again(browser: Browser, sources: FakeSources) -> None:
    page = send(browser, confirm(browser).token, typed="orders")
    assert "The command was dropped: type the name orders.v1 to confirm it." in page.text
    fields = {name: values[0] for name, values in page.fields.items()}
    assert browser.post("/ui/topic/act", {**fields, "typed": "orders.v1"}).status == 303
    assert len(sources.only.submitted) == 1


@pytest.mark.usefixtures("skipping")
def test_a_pause_needs_no_typed_name(browser: Browser, sources: FakeSources) -> None:
    page = confirm(browser, verb="pause", place="", partitions="")
    assert "Type the name" not in page.text
    assert send(browser, page.token, verb="pause", typed="", partitions="").status == 303
    (command,) = sources.only.submitted
    assert (command.verb, command.place, command.selectors[0].partitions) == (TopicVerb.PAUSE, None, None)
    assert command.by == "console at 127.0.0.1"


@pytest.mark.usefixtures("skipping")
def test_a_failed_action_has_its_reason_and_a_line_in_the_audit(
    browser: Browser, sources: FakeSources, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    token = confirm(browser).token
    sources.fails = ClusterError("cluster b: no broker answers")
    answer = send(browser, token)
    assert answer.status == 502
    assert "no broker answers" in answer.text
    assert 'outcome="ClusterError"' in caplog.records[-1].getMessage()


def test_a_console_without_actions_only_shows(sources: FakeSources) -> None:
    app = console_app(sources, ConsoleSettings(actions=False))
    browser = Browser(app)
    try:
        page = browser.get("/ui/topic?flow=a-%3Eb&topic=orders")
        assert "Show the effect" not in page.text
        assert confirm(browser).status == 403
    finally:
        app.close()


def test_an_unknown_outcome_is_not_found(browser: Browser) -> None:
    assert browser.get("/ui/topic/outcome?flow=a-%3Eb&topic=orders&id=x").status == 404


def test_places_are_read_as_by_the_command() -> None:
    moment = TopicAction.of({**FIELDS, "place": "time", "value": "2026-11-20T08:00:00Z"}).place
    assert str(moment) == "time 2026-11-20T08:00:00Z"
    assert str(TopicAction.of({**FIELDS, "place": "offset", "value": "12"}).place) == "offset 12"
    assert TopicAction.of({**FIELDS, "partitions": " 3,1 ,3"}).partitions == (1, 3)


class HalfSilentSources(FakeSources):
    """Two flows; actions on the first wait for its clusters until they answer."""

    def __init__(self, answers: threading.Event) -> None:
        super().__init__(SETTINGS, replace(SETTINGS, connector_name="copy", kind="source"))
        self._answers = answers

    def open_topics(self, name: str) -> TopicsReader:
        assert name != FLOW or self._answers.wait(DEADLINE_S)
        return super().open_topics(name)


def test_actions_on_a_silent_flow_hold_up_no_action_on_another_flow() -> None:
    answers = threading.Event()
    app = console_app(HalfSilentSources(answers))

    def ask(flow: str) -> Coroutine[Any, Any, Answer]:
        query = urlencode({"flow": flow, "topic": "orders", "verb": "pause"})
        return Browser(app)._ask("GET", f"/ui/topic/confirm?{query}", b"", {})

    async def ask_all() -> tuple[int, list[int]]:
        waiting = [asyncio.create_task(ask(FLOW)) for _ in range(2 * ACTIONS_AT_A_TIME)]
        await asyncio.sleep(0)
        other = await asyncio.wait_for(ask("copy"), DEADLINE_S / 2)
        assert not any(one.done() for one in waiting)
        answers.set()
        return other.status, [one.status for one in await asyncio.gather(*waiting)]

    try:
        assert asyncio.run(ask_all()) == (200, [200] * 2 * ACTIONS_AT_A_TIME)
    finally:
        answers.set()
        app.close()

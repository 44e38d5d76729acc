"""The offsets of a connector: only once it is stopped, after the effect and a typed name, and sent once."""

from __future__ import annotations

import html
import json
import logging
import re
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.unit.ui.browser import Answer, Browser
from tests.unit.ui.fakes import FakeRest, FakeSources, fake_worker
from tests.unit.ui.login.test_security import HOSTILE, names_of
from twinlog.errors import RequestError
from twinlog.ui.pages.connectors.offsets import read_offset_lines

PAGE, RESET = "/ui/connector/offsets?name=copy", "/ui/connector/offsets/reset?name=copy"
PATH = "/ui/connector/offsets"


@pytest.fixture(autouse=True)
def rest(sources: FakeSources) -> FakeRest:
    sources.rest = fake_worker(state="STOPPED")
    return sources.rest


def line(offset: int | None, topic: str = "copy") -> str:
    return json.dumps({"partition": {"topic": topic}, "offset": None if offset is None else {"offset": offset}})


def show_effect(browser: Browser, *lines: str, **headers: str) -> Answer:
    form = {"token": browser.get(PAGE).token, "name": "copy", "lines": "\r\n".join(lines)}
    return browser.post(PATH, form, **headers)


def confirm(browser: Browser, page: Answer, **changes: str) -> Answer:
    hidden = re.findall(r'hidden" name="(\w+)" value="([^"]*)"', page.text)
    verb = re.findall(r'name="verb" value="(\w+)"', page.text)
    form = {name: html.unescape(value) for name, value in hidden} | {"verb": verb[-1], "typed": "copy"}
    return browser.post(f"{PATH}/act", form | changes)


def test_a_connector_that_runs_keeps_its_offsets_and_is_offered_a_stop(browser: Browser, sources: FakeSources) -> None:
    sources.rest = rest = fake_worker()
    page = browser.get(PAGE)
    assert "Its offsets can be altered only while it is STOPPED" in page.text
    assert "Stop copy" in page.text
    assert 'name="then" value="offsets"' in page.text
    assert "offsets/reset" not in page.text
    answer = show_effect(browser, line(1))
    assert answer.status == 400
    assert "copy is RUNNING, and its offsets are fixed until it is STOPPED" in answer.text
    assert html.escape(line(1), quote=True).replace("&quot;", "&#34;") in answer.text
    assert browser.get(RESET).status == 409
    assert rest.sent == []


def test_an_altered_line_shows_its_effect_and_is_sent_after_the_name(
    browser: Browser, rest: FakeRest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    assert html.unescape(browser.get(PAGE).text).count(line(3)) == 1
    page = show_effect(browser, line(1), "", line(7, "new"))
    assert page.status == 200
    assert "At its next start copy continues after these offsets" in page.text
    assert "2 source offsets copied again" in page.text
    assert "The target will have 2 source offsets twice" in page.text
    assert "continues after source offset 7" in page.text
    assert "Type the name copy to confirm" in page.text
    assert rest.sent == []
    for name, value in (("typed", "cop"), ("verb", "x"), ("lines", "x"), ("token", "x")):
        assert confirm(browser, page, **{name: value}).status == (403 if name == "token" else 400)
    assert rest.sent == []
    answer = confirm(browser, page)
    assert (answer.status, answer.headers["location"]) == (303, "/ui/connector?name=copy")
    assert rest.sent == [("PATCH", "connectors", "copy", "offsets")]
    assert rest.bodies == [{"offsets": [json.loads(line(1)), json.loads(line(7, "new"))]}]
    (found,) = [record.getMessage() for record in caplog.records]
    assert found.endswith('action="alter offsets" connector="copy" partitions="2" outcome="accepted"')


@pytest.mark.parametrize(
    ("offset", "effect"),
    [
        (10, {"passed_over": 7, "copied_again": 0, "effect": "7 source offsets passed over"}),
        (2, {"passed_over": 0, "copied_again": 1, "effect": "1 source offset copied again"}),
        (None, {"passed_over": 0, "copied_again": 0, "effect": "begins at its first record"}),
    ],
)
def test_the_effect_of_an_offset(browser: Browser, offset: int | None, effect: dict[str, Any]) -> None:
    found = show_effect(browser, line(offset), accept="application/json").json
    (change,) = found["changes"]
    assert {**{name: found[name] for name in ("passed_over", "copied_again")}, "effect": change["effect"]} == effect
    assert change["before"] == '{"offset": 3}'
    assert change["after"] == ("none" if offset is None else json.dumps({"offset": offset}))


def test_offsets_of_checkpoints_move_no_records(browser: Browser, rest: FakeRest) -> None:
    rest.answers["connectors/copy/config"] = {"connector.class": "MirrorCheckpointConnector"}
    found = show_effect(browser, line(None), accept="application/json").json
    assert (found["copied_again"], found["changes"][0]["effect"]) == (0, "")
    assert "records stay as they are" in browser.get(RESET).text


def test_a_reset_names_the_connector_and_its_effect(
    browser: Browser, rest: FakeRest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    page = browser.get(RESET)
    assert "All 1 stored offset of copy are deleted" in page.text
    assert "the connector copies everything again" in page.text
    assert "offsets/reset" in browser.get(PAGE).text
    assert confirm(browser, page, typed="").status == 400
    assert rest.sent == []
    assert confirm(browser, page).status == 303
    assert rest.sent == [("DELETE", "connectors", "copy", "offsets")]
    rest.answers["DELETE"] = RequestError(400, "Connectors must be in the STOPPED state")
    answer = confirm(browser, page)
    assert answer.status == 400
    assert "must be in the STOPPED state" in answer.text
    found = [record.getMessage().partition("action=")[2] for record in caplog.records]
    assert found == [
        '"reset offsets" connector="copy" partitions="all" outcome="accepted"',
        '"reset offsets" connector="copy" partitions="all" outcome="RequestError"',
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Write a line for each partition"),
        (line(3), "nothing to alter"),
        (f"{line(1)}\n{{", "Line 2: broken JSON: Expecting property name"),
        ('{"partition": {"topic": "copy"}, "offset": {"offset": NaN}}', "Line 1: a number is beyond JSON"),
        ("[" * 100_000, "nested too deep"),
        ("3", "Line 1: write a partition"),
        ('{"partition": {"topic": "copy"}}', "Line 1: write a partition"),
        ('{"partition": null, "offset": null}', "Line 1: write a partition"),
        ('{"partition": {}, "offset": 3}', "Line 1: write a partition"),
        (f"{line(1)}\n{line(2)}", "Line 2: an earlier line has the same partition"),
    ],
)
def test_wrong_lines_come_back(browser: Browser, rest: FakeRest, text: str, words: str) -> None:
    answer = show_effect(browser, text, accept="application/json")
    assert answer.status == 400
    assert any(words in one for one in answer.json["mistakes"])
    assert answer.json["lines"] == text
    assert rest.sent == []


def test_a_connector_that_stored_nothing_has_nothing_to_reset(browser: Browser, rest: FakeRest) -> None:
    rest.answers["connectors/copy/offsets"] = {"offsets": []}
    assert "offsets/reset" not in browser.get(PAGE).text
    assert "The connector has no stored offset" in browser.get("/ui/connector?name=copy").text


def test_a_huge_number_is_left_to_the_worker(browser: Browser) -> None:
    assert show_effect(browser, line(10**40)).status == 200
    assert read_offset_lines(line(10**40))[1] == []


def test_an_unknown_connector_is_not_found(browser: Browser) -> None:
    assert browser.get(f"{PATH}?name=nothing").status == 404
    assert browser.get(f"{PATH}/reset?name=nothing").status == 404
    assert browser.get(f"{PATH}/act").status == 405


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_names_and_offsets_are_text(browser: Browser, sources: FakeSources, hostile: str) -> None:
    def pages(name: str) -> list[Answer]:
        query = urlencode({"name": name})
        sources.rest = fake_worker(name, state=name)
        running = browser.get(f"{PATH}?{query}")
        sources.rest = fake_worker(name, state="STOPPED")
        form = {"token": running.token, "name": name, "lines": line(1, name)}
        return [
            running,
            browser.get(f"{PATH}?{query}"),
            browser.get(f"{PATH}/reset?{query}"),
            browser.post(PATH, form),
            browser.post(PATH, form | {"lines": f"{line(1)}\n{name}"}),
        ]

    name = hostile.encode("utf-8", "replace").decode()
    for plain, bad in zip(pages("copy"), pages(name), strict=True):
        assert bad.status == plain.status
        one, other = names_of(plain.text), names_of(bad.text)
        assert other.tags <= one.tags
        assert {attribute for attribute in other.attributes if attribute[1] != "class"} <= one.attributes

"""The pages of connectors: what the worker answers, secrets hidden, and actions once they are confirmed."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.unit.ui.browser import Browser
from tests.unit.ui.fakes import FakeRest, FakeSources, fake_worker
from tests.unit.ui.login.test_security import HOSTILE, names_of
from twinlog.errors import ClusterError

PAGE = "/ui/connector?name=copy"


@pytest.fixture(autouse=True)
def rest(sources: FakeSources) -> FakeRest:
    sources.rest = fake_worker()
    return sources.rest


def test_a_connector_whose_task_failed_is_shown_as_failed(browser: Browser) -> None:
    (row,) = browser.json("/ui/connectors")["connectors"]["rows"]
    assert row == {
        "name": "copy",
        "kind": "MirrorSourceConnector",
        "state": "TASK FAILED",
        "tasks": "1 FAILED, 1 RUNNING",
        "worker": "w:1",
    }
    assert "MirrorSourceConnector" in browser.get("/ui/connectors").text


def test_a_connector_shows_why_it_failed_and_hides_secrets(browser: Browser) -> None:
    page = browser.json(PAGE)
    assert page["parts"][1]["trace"]["short"] == "java.lang.X: no"
    assert {one["key"]: one["value"] for one in page["config"]}["x"] == "copy"
    assert page["offsets"] == [{"partition": '{"topic": "copy"}', "offset": '{"offset": 3}'}]
    text = browser.get(PAGE).text
    assert "java.lang.X: no" in text
    assert "secret-value" not in text
    assert "secret-value" not in str(page)


@pytest.mark.parametrize(
    ("verb", "sent"),
    [
        ("pause", ("PUT", "connectors", "copy", "pause")),
        ("resume", ("PUT", "connectors", "copy", "resume")),
        ("stop", ("PUT", "connectors", "copy", "stop")),
        ("restart", ("POST", "connectors", "copy", "restart", "includeTasks=true", "onlyFailed=false")),
        ("restart-failed", ("POST", "connectors", "copy", "restart", "includeTasks=true", "onlyFailed=true")),
        ("delete", ("DELETE", "connectors", "copy")),
    ],
)
def test_actions_are_sent_once_with_a_line_in_the_audit(
    browser: Browser, rest: FakeRest, caplog: pytest.LogCaptureFixture, verb: str, sent: tuple[str, ...]
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    form = {"token": browser.get(PAGE).token, "name": "copy", "verb": verb, "typed": "copy"}
    answer = browser.post("/ui/connector/act", form)
    assert answer.status == 303
    assert rest.sent == [sent]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith(f'action="{verb} connector" connector="copy" outcome="accepted"')


@pytest.mark.parametrize(
    "form", [{"verb": "delete"}, {"verb": "delete", "typed": "cop"}, {"verb": "x"}, {"verb": "pause", "name": ""}]
)
def test_a_wrong_form_sends_nothing(browser: Browser, rest: FakeRest, form: dict[str, str]) -> None:
    token = browser.get(PAGE).token
    assert browser.post("/ui/connector/act", {"token": token, "name": "copy", **form}).status == 400
    assert browser.post("/ui/connector/act", {"token": "x", "name": "copy", "verb": "pause"}).status == 403
    assert rest.sent == []


def test_a_stop_leads_back_to_the_offsets_that_wait_for_it(browser: Browser) -> None:
    form = {"token": browser.get(PAGE).token, "name": "copy", "verb": "stop", "then": "offsets"}
    assert browser.post("/ui/connector/act", form).headers["location"] == "/ui/connector/offsets?name=copy"


def test_without_a_worker_the_page_names_the_option(browser: Browser, sources: FakeSources) -> None:
    sources.rest = None
    assert "--url URL" in browser.get("/ui/connectors").text
    assert browser.get(PAGE).status == 404


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_leads_to_another_path_of_the_worker_is_unknown(
    browser: Browser, rest: FakeRest, name: str
) -> None:
    rest.answers[f"connectors/{name}"] = {"version": "4.3.0"}
    assert browser.get(f"/ui/connector?name={name}").status == 404
    form = {"token": browser.get(PAGE).token, "name": name, "verb": "delete", "typed": name}
    assert browser.post("/ui/connector/act", form).status == 400
    assert rest.sent == []


def test_a_silent_worker_and_an_unknown_connector(browser: Browser, rest: FakeRest) -> None:
    assert browser.get("/ui/connector?name=nothing").status == 404
    rest.answers["connectors?expand=info"] = ClusterError("http://connect:8083 was silent for 20 s")
    answer = browser.get("/ui/connectors")
    assert answer.status == 502
    assert "was silent" in answer.text


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_connectors_are_text(browser: Browser, sources: FakeSources, hostile: str) -> None:
    def pages(name: str) -> list[Any]:
        sources.rest = fake_worker(name, name)
        query = urlencode({"name": name}, errors="replace")
        return [names_of(browser.get(page).text) for page in ("/ui/connectors", f"/ui/connector?{query}")]

    # A URL carries no half characters, so their connector has the name with replacements.
    name = hostile.encode("utf-8", "replace").decode()
    for plain, bad in zip(pages("copy"), pages(name), strict=True):
        assert bad.tags - {"code", "b"} <= plain.tags
        assert {one for one in bad.attributes if one[1] != "class"} <= plain.attributes

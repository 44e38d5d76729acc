"""The forms of a connector: checked by the worker, filled in after a mistake, and sent once, with secrets kept back."""

from __future__ import annotations

import html
import json
import logging
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.unit.ui.browser import SESSION_COOKIE, Answer, Browser
from tests.unit.ui.fakes import FakeRest, FakeSources, fake_worker
from tests.unit.ui.login.test_security import HOSTILE, names_of
from twinlog.errors import ClusterError, RequestError
from twinlog.ui.app import ConsoleApp, console_app
from twinlog.ui.login.sessions import MOST_FORMS
from twinlog.ui.site import ConsoleSettings

NEW, EDIT = "/ui/connector/new", "/ui/connector/edit?name=copy"
SOURCE = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
JAAS = "source.cluster.sasl.jaas.config"
TEXT = f'{JAAS} = login password="pw-1";\ntasks.max = many\n'
STORED = {"name": "copy", "connector.class": SOURCE, JAAS: "secret-value", "x": "copy"}


@pytest.fixture(autouse=True)
def rest(sources: FakeSources) -> FakeRest:
    sources.rest = fake_worker()
    return sources.rest


def verdict(key: str, *errors: str, recommended: tuple[str, ...] = ()) -> dict[str, Any]:
    value = {"name": key, "value": None, "errors": list(errors), "recommended_values": list(recommended)}
    return {"error_count": len(errors), "configs": [{"definition": None, "value": value}, {"value": None}]}


def fields(page: Answer) -> dict[str, str]:
    """The hidden fields and the text of the form."""
    hidden = re.findall(r'hidden" name="(\w+)" value="([^"]*)"', page.text)
    found = {name: html.unescape(value) for name, value in hidden}
    area = re.search(r"<textarea[^>]*>(.*?)</textarea>", page.text, re.DOTALL)
    assert area is not None, page.text
    return {**found, "text": html.unescape(area[1])}


def send(browser: Browser, url: str, page: Answer, **changes: str) -> Answer:
    """Send the form of a page as a browser does, with some fields changed."""
    return browser.post(url.partition("?")[0], {**fields(page), **changes})


def create(browser: Browser, **changes: str) -> Answer:
    given = {"name": "mine", "kind": SOURCE, "text": TEXT, "step": "create"}
    return send(browser, NEW, browser.get(NEW), **given | changes)


def wrong(answer: Answer) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = answer.json["wrong"]
    return found


def test_a_mistake_comes_back_filled_in_and_the_mended_form_creates(
    browser: Browser, rest: FakeRest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    rest.answers["validate"] = verdict("tasks.max", "Invalid value many, after pw-1", recommended=("1", "2"))
    page = create(browser, state="STOPPED")
    assert page.status == 400
    for part in ("1 error", "many, after (hidden)", "<code>2</code>", "tasks.max = many", f"{JAAS} = (hidden)"):
        assert part in page.text
    assert 'id="name" name="name" value="mine"' in page.text
    assert "pw-1" not in page.text
    assert f"<option selected>{SOURCE}</option>" in page.text
    assert "<option selected>STOPPED</option>" in page.text
    assert 'value="create"' not in page.text
    assert rest.sent == []

    del rest.answers["validate"]
    text = fields(page)["text"].replace("many", "3")
    page = send(browser, NEW, page, name="mine", kind=SOURCE, state="STOPPED", text=text, step="check")
    assert page.status == 200
    assert "The worker finds no error" in page.text
    assert "Create mine" in page.text
    assert rest.sent == []
    last = {"name": "mine", "kind": SOURCE, "state": "STOPPED", "step": "create"}
    answer = send(browser, NEW, page, **last)
    assert (answer.status, answer.headers["location"]) == (303, "/ui/connector?name=mine")
    assert rest.sent == [("POST", "connectors")]
    config = {"connector.class": SOURCE, JAAS: 'login password="pw-1";', "tasks.max": "3", "name": "mine"}
    assert rest.bodies == [{"name": "mine", "config": config, "initial_state": "STOPPED"}]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith('action="create connector" connector="mine" state="STOPPED" outcome="accepted"')
    assert "pw-1" not in page.text + line
    # The session has forgotten the secret.
    assert send(browser, NEW, page, **last).status == 400
    assert len(rest.sent) == 1


def test_a_check_with_errors_is_an_answer_and_shows_no_secret(browser: Browser, rest: FakeRest) -> None:
    rest.answers["validate"] = verdict(JAAS, 'Invalid value login password="pw-1"; for x', recommended=("pw-2",))
    answer = create(browser, step="check")
    assert answer.status == 200
    assert "pw-" not in answer.text
    assert "Invalid value (hidden) for x" in answer.text


def test_json_brings_its_name_and_its_state(browser: Browser, rest: FakeRest) -> None:
    config: dict[str, object] = {"connector.class": SOURCE, "tasks.max": 2}
    text = json.dumps({"name": "other", "config": config, "initial_state": "PAUSED"})
    page = create(browser, name="", kind="", text=text, step="check")
    assert "<option selected>PAUSED</option>" in page.text
    assert 'id="name" name="name" value="other"' in page.text
    assert create(browser, name="", kind="", text=text).status == 303
    config |= {"tasks.max": "2", "name": "other"}
    assert rest.bodies == [{"name": "other", "config": config, "initial_state": "PAUSED"}]


def test_a_running_connector_needs_no_field_of_later_workers(browser: Browser, rest: FakeRest) -> None:
    assert create(browser, text="a = 1").status == 303
    assert rest.bodies == [{"name": "mine", "config": {"connector.class": SOURCE, "a": "1", "name": "mine"}}]


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"name": ""}, "name", "missing"),
        ({"text": '{"a": "1" "b": "2"}'}, "", "line 1: broken JSON: a comma is missing"),
        ({"text": "connector.class = x"}, "connector.class", "leave this key out"),
        ({"text": "a = 1", "kind": ""}, "connector.class", "The class is missing"),
        ({"text": "a.password = (hidden)"}, "a.password", "the console lacks it"),
    ],
)
def test_a_mistake_of_the_form_is_found_before_the_worker_is_asked(
    browser: Browser, rest: FakeRest, changes: dict[str, str], key: str, words: str
) -> None:
    rest.answers["validate"] = RuntimeError("the worker was asked")
    form = {**fields(browser.get(NEW)), "name": "mine", "kind": SOURCE, "text": "a = 1", "step": "create", **changes}
    answer = browser.post(NEW, form, accept="application/json")
    assert answer.status == 400
    (one,) = wrong(answer)
    assert one["key"] == key
    assert words in one["errors"][0]
    assert rest.sent == []


@pytest.mark.parametrize(
    ("changes", "status"),
    [({"id": ""}, 400), ({"id": "x" * 65}, 400), ({"state": "x"}, 400), ({"step": "save"}, 400), ({"token": "x"}, 403)],
)
def test_a_wrong_form_sends_nothing(browser: Browser, rest: FakeRest, changes: dict[str, str], status: int) -> None:
    assert create(browser, **changes).status == status
    assert rest.sent == []


def test_a_refusal_comes_back_filled_in_and_a_silent_worker_is_told(
    browser: Browser, rest: FakeRest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    rest.answers["POST"] = RequestError(409, "Connector mine already exists\nand has pw-1")
    answer = create(browser, text="a.password = pw-1")
    assert answer.status == 400
    assert "already exists" in answer.text
    assert "a.password = (hidden)" in answer.text
    assert "pw-1" not in answer.text
    assert caplog.records[-1].getMessage().endswith('state="RUNNING" outcome="RequestError"')
    rest.answers["POST"] = RequestError(403, "HTTP 403 Forbidden")
    assert create(browser).status == 403
    rest.answers["POST"] = ClusterError("http://connect:8083 was silent for 20 s")
    assert create(browser).status == 502
    rest.answers["validate"] = RequestError(500, "no class that matches")
    answer = create(browser)
    assert answer.status == 400
    assert "no class that matches" in answer.text
    assert rest.sent == []


def test_an_edit_keeps_hidden_secrets_and_sends_the_whole_configuration(
    browser: Browser, rest: FakeRest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    page = browser.get(EDIT)
    assert fields(page)["text"] == f"connector.class = {SOURCE}\n{JAAS} = (hidden)\nx = copy\n"
    text = fields(page)["text"].replace("x = copy", "x = new")
    page = send(browser, EDIT, page, text=text, step="check")
    assert "~ x = copy -&gt; new" in page.text
    assert "Save the configuration of copy" in page.text
    assert rest.sent == []
    answer = send(browser, EDIT, page, step="save")
    assert (answer.status, answer.headers["location"]) == (303, "/ui/connector?name=copy")
    assert rest.sent == [("PUT", "connectors", "copy", "config")]
    assert rest.bodies == [{**STORED, "x": "new"}]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith('action="edit connector" connector="copy" keys="x" outcome="accepted"')
    assert "secret-value" not in page.text


def test_an_edit_changes_a_secret_and_removes_a_key(browser: Browser, rest: FakeRest) -> None:
    page = browser.get(EDIT)
    page = send(browser, EDIT, page, text=f"connector.class = {SOURCE}\n{JAAS} = other-secret\n", step="check")
    assert f"~ {JAAS} = (hidden) -&gt; (hidden)" in page.text
    assert "- x = copy" in page.text
    assert "other-secret" not in page.text
    assert send(browser, EDIT, page, step="save").status == 303
    assert rest.bodies == [{"name": "copy", "connector.class": SOURCE, JAAS: "other-secret"}]


def test_an_edit_without_a_change_sends_nothing(browser: Browser, rest: FakeRest) -> None:
    answer = send(browser, EDIT, browser.get(EDIT), step="save")
    assert answer.status == 200
    assert "Nothing changes" in answer.text
    assert rest.sent == []


def test_an_edit_undoes_a_change_of_another_user_only_after_a_look_at_it(browser: Browser, rest: FakeRest) -> None:
    page = browser.get(EDIT)
    rest.answers["connectors/copy/config"] = {**STORED, "y": "theirs"}
    page = send(browser, EDIT, page, step="save")
    assert page.status == 400
    assert "has changed since the form was loaded" in page.text
    assert "- y = theirs" in page.text
    assert rest.sent == []
    assert send(browser, EDIT, page, step="save").status == 303
    assert rest.bodies == [STORED]


def test_a_session_keeps_the_secrets_of_a_few_forms(app: ConsoleApp, browser: Browser) -> None:
    pages = [create(browser, step="check") for _ in range(MOST_FORMS + 1)]
    session = app.site.sessions.find(browser.cookies[SESSION_COOKIE])
    assert session is not None
    assert list(session.kept_secrets) == [fields(page)["id"] for page in pages[1:]]
    assert "pw-1" not in repr(session)
    other = Browser(app)
    form = {**fields(pages[-1]), "token": other.get(NEW).token, "name": "mine", "kind": SOURCE}
    assert "the console lacks it" in other.post(NEW, form).text


def test_a_console_without_actions_only_shows(sources: FakeSources) -> None:
    app = console_app(sources, ConsoleSettings(actions=False))
    browser = Browser(app)
    try:
        for page in ("/ui/connectors", "/ui/connector?name=copy"):
            answer = browser.get(page)
            assert answer.status == 200
            for link in ("connector/new", "connector/edit", "connector/offsets"):
                assert link not in answer.text
        for page in (NEW, EDIT, "/ui/connector/offsets?name=copy", "/ui/connector/offsets/reset?name=copy"):
            assert browser.get(page).status == 403
    finally:
        app.close()


def test_an_unknown_connector_and_a_missing_worker(browser: Browser, sources: FakeSources) -> None:
    assert browser.get("/ui/connector/edit?name=nothing").status == 404
    sources.rest = None
    assert browser.get(NEW).status == 404


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_names_values_and_words_are_text(browser: Browser, sources: FakeSources, hostile: str) -> None:
    def pages(text: str) -> list[Answer]:
        sources.rest = rest = fake_worker(text)
        rest.answers["validate"] = verdict(text, text, recommended=(text,))
        name = urlencode({"name": text}, errors="replace")
        edit = browser.get(f"/ui/connector/edit?{name}")
        typed = {"name": text, "kind": text, "text": f"{SOURCE} = {text}", "step": "create"}
        sent = {key: value.encode("utf-8", "replace").decode() for key, value in typed.items()}
        return [
            edit,
            send(browser, NEW, browser.get(NEW), **sent),
            send(browser, NEW, browser.get(NEW), **sent | {"text": f'{{"a": {sent["text"]}'}),
            send(browser, EDIT, edit, text=f"connector.class = x\nx = {sent['text']}", step="check"),
        ]

    name = hostile.encode("utf-8", "replace").decode()
    for plain, bad in zip(pages("copy"), pages(name), strict=True):
        assert bad.status == plain.status
        one, other = names_of(plain.text), names_of(bad.text)
        assert other.tags - {"code", "b", "li", "ul"} <= one.tags
        assert {attribute for attribute in other.attributes if attribute[1] != "class"} <= one.attributes

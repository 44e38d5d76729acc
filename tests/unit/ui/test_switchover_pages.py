"""A switchover from its page: the same steps and the same journal as `twinlog switchover`, on scripted clusters."""

from __future__ import annotations

import html
import logging
import time
from typing import Any, NoReturn
from urllib.parse import urlencode

import pytest

from tests.unit.ops.switchover.scripted import FENCE_PLAN, P0, replace_topic
from tests.unit.ui.browser import Answer, Browser
from tests.unit.ui.fakes import FLOW, FakeSources, ScriptedClusters, rehearsed
from tests.unit.ui.test_accessible import Outline
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.errors import ClusterError
from twinlog.mirror.topics.journal_keys import StepPhase, SwitchoverState
from twinlog.model.types import TopicName
from twinlog.ops.switchover.journal import JournalEntries, JournalEntry, SwitchoverRun
from twinlog.ops.switchover.model import SwitchoverKind, SwitchoverOptions
from twinlog.ui import conducting
from twinlog.ui.app import ConsoleApp, console_app
from twinlog.ui.site import ConsoleSettings

DEADLINE_S = 60.0
TARGET = str(SETTINGS.target)
REMOTE = TopicName("a.orders")


def confirm(browser: Browser, **query: str) -> Answer:
    return browser.get(f"/ui/switchover/confirm?{urlencode({'flow': FLOW, 'mode': 'run', 'kind': 'planned', **query})}")


def send(browser: Browser, **changes: str) -> Answer:
    token = confirm(browser).token
    form = {"flow": FLOW, "mode": "run", "kind": "planned", "typed": TARGET, "token": token}
    return browser.post("/ui/switchover/act", form | changes)


def page(browser: Browser) -> Any:
    return browser.json(f"/ui/switchover?{urlencode({'flow': FLOW})}")


def wait_end(browser: Browser, app: ConsoleApp) -> Any:
    """The page once the console's switchover has ended and the journal was read after that."""
    until = time.monotonic() + DEADLINE_S
    while True:
        conducted = app.site.conductor.find(FLOW)
        assert conducted is not None
        if not conducted.runs:
            break
        assert time.monotonic() < until
        time.sleep(0.01)
    # A read that began before the end may be the next, so two are waited for.
    poller = app.site.live.flow(FLOW).switchover
    for _ in range(2):
        version = poller.reading.version
        poller.hurry()
        assert poller.wait_reading(DEADLINE_S, version).version > version
    return page(browser)


def titles(shown: Any) -> list[str]:
    return [one["title"] for one in shown["offers"]]


def test_a_switchover_runs_to_its_end_and_its_report_is_shown(
    browser: Browser, app: ConsoleApp, sources: FakeSources, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    before = page(browser)
    assert before["stands"] == "no switchover has begun"
    assert titles(before) == ["Switch over", "Fail over without the source", "Switch back"]
    assert before["report"] == {}
    answer = send(browser)
    assert answer.status == 303
    assert answer.headers["location"].startswith("/ui/switchover?flow=")
    after = wait_end(browser, app)
    assert after["conducted"]["trouble"] is None
    assert after["conducted"]["lines"][0]["step"] == "check"
    assert after["report"]["state"] == "done"
    assert (after["report"]["skipped"], after["report"]["unknown_groups"]) == (0, 0)
    assert after["report"]["seconds_without_producers"] > 0
    assert sources.brokers.committed
    assert titles(after)[-1] == "Lift the fence"
    shown = browser.get(f"/ui/switchover?{urlencode({'flow': FLOW})}").text
    assert "Records: the proof of each partition" in shown
    assert f"point producers to {TARGET}" in shown
    lines = [one.getMessage() for one in caplog.records if "run switchover" in one.getMessage()]
    assert ['outcome="begins"' in lines[0], 'outcome="done"' in lines[1]] == [True, True]

    send(browser, mode="release")
    released = wait_end(browser, app)
    assert sources.brokers.lifts
    assert "Lift the fence" not in titles(released)


def test_a_refused_commit_of_a_group_is_trouble_until_it_is_repeated(
    browser: Browser, app: ConsoleApp, sources: FakeSources, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    sources.brokers.refuses = dict.fromkeys((P0, replace_topic(P0, REMOTE)), "User:mirror lacks READ on topic orders")
    send(browser)
    shown = wait_end(browser, app)
    assert shown["report"]["state"] == "done"
    trouble = shown["conducted"]["trouble"]
    assert trouble.startswith(f"TW-SWITCH-20: {TARGET} refused the commit of group shop in ")
    assert trouble.endswith(
        ": User:mirror lacks READ on topic orders; then switch over again: it commits these offsets"
    )
    audited = [record.getMessage() for record in caplog.records if record.name == "twinlog.audit"]
    assert "TW-SWITCH-20" in audited[-1]
    sources.brokers.refuses = {}
    send(browser)
    assert wait_end(browser, app)["conducted"]["trouble"] is None


def test_a_switchover_that_has_ended_is_in_the_audit_log(
    browser: Browser, app: ConsoleApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[bool] = []

    def note(*_: str, **facts: str) -> None:
        conducted = app.site.conductor.find(FLOW)
        assert conducted is not None
        ran.append(conducted.runs)

    monkeypatch.setattr(conducting, "audit", note)
    send(browser)
    wait_end(browser, app)
    assert ran == [True, True], "its begin and its end"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"typed": "elsewhere"}, f"type the name {TARGET}"),
        ({"mode": "dance"}, "The action 'dance' is unknown; it is run, abort, release."),
        ({"kind": "odd"}, "The kind 'odd' is unknown; it is planned, emergency, back."),
        ({"fence": "rope"}, "The fence 'rope' is unknown; it is acl, quota, none."),
        ({"near": "-1"}, "Write the records left to copy as a number from 0 to 1000000000000; found '-1'."),
        ({"timeout": "0"}, "Write the seconds as a number from 1 to 86400; found '0'."),
        ({"flow": "x->y"}, "The flow 'x->y' is unknown"),
    ],
)
def test_wrong_forms_change_nothing(browser: Browser, sources: FakeSources, changes: dict[str, str], text: str) -> None:
    answer = send(browser, **changes)
    assert answer.status in (400, 404)
    assert text in html.unescape(answer.text)
    assert sources.brokers.records == []


def test_a_form_with_a_mistake_comes_back_filled_in(browser: Browser, app: ConsoleApp, sources: FakeSources) -> None:
    typed = {"fence": "quota", "near": "7", "timeout": "9", "take_over": "yes", "typed": "elsewhere<b>"}
    answer = send(browser, **typed)
    assert answer.status == 400
    assert "Nothing was changed" in answer.text
    assert "elsewhere<b>" not in answer.text
    outline = Outline()
    outline.feed(answer.text)
    assert all(field.get("id") in outline.labels for field in outline.fields)
    assert {name: answer.fields[name] for name in typed} == {name: [value] for name, value in typed.items()}
    assert "take_over" not in send(browser, timeout="x").fields
    twin = browser.post("/ui/api/switchover/act", {name: values[0] for name, values in answer.fields.items()})
    assert (twin.status, twin.json["error_code"], twin.json["near"]) == (400, 400, "7")
    assert twin.json["message"] == f"Nothing was changed: type the name {TARGET} to confirm it."
    assert sources.brokers.records == []
    # With the mistake mended the same form begins the switchover.
    mended = {**{name: values[0] for name, values in answer.fields.items()}, "typed": TARGET}
    assert browser.post("/ui/switchover/act", mended).status == 303
    assert wait_end(browser, app)["report"]["state"] == "done"


def test_a_form_without_its_token_changes_nothing(browser: Browser, sources: FakeSources) -> None:
    assert send(browser, token="0" * 64).status == 403
    assert sources.brokers.records == []


def test_a_console_that_only_shows_offers_nothing(sources: FakeSources) -> None:
    app = console_app(sources, ConsoleSettings(actions=False))
    browser = Browser(app)
    assert page(browser)["offers"] == []
    answer = confirm(browser)
    assert answer.status == 403
    assert "This console only shows: <code>--read-only</code> turned actions off." in answer.text
    app.close()


def test_one_switchover_at_a_time(
    browser: Browser, app: ConsoleApp, sources: FakeSources, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    sources.gate.clear()
    assert send(browser).status == 303
    assert titles(page(browser)) == ["Stop and undo"]
    assert page(browser)["conducted"]["runs"]
    again = send(browser)
    assert again.status == 409
    assert f"The console works on switchover {FLOW} already" in html.unescape(again.text)
    lines = [one.getMessage() for one in caplog.records if "run switchover" in one.getMessage()]
    assert ['outcome="begins"' in lines[0], 'outcome="refused" status="409"' in lines[1]] == [True, True]
    assert len(lines) == 2
    sources.gate.set()
    assert wait_end(browser, app)["report"]["state"] == "done"


def test_a_switchover_that_runs_is_stopped_and_undone(browser: Browser, app: ConsoleApp, sources: FakeSources) -> None:
    sources.gate.clear()
    assert send(browser).status == 303
    assert send(browser, mode="abort").status == 303
    shown = page(browser)
    assert (shown["offers"], shown["conducted"]["title"]) == ([], "Undo")
    assert send(browser, mode="abort").status == 409
    sources.gate.set()
    undone = wait_end(browser, app)
    assert undone["report"]["state"] == "aborted"
    assert undone["conducted"]["trouble"] is None
    assert not sources.brokers.fenced
    assert not sources.brokers.committed


def test_obstacles_are_shown_and_nothing_changes(browser: Browser, app: ConsoleApp, sources: FakeSources) -> None:
    sources.brokers.problems = ("topic orders lacks a copy", "group shop is unknown")
    sources.only.rehearsal = rehearsed("topic orders lacks a copy")
    browser.get(f"/ui/readiness?{urlencode({'flow': FLOW})}")
    assert "topic orders lacks a copy" in confirm(browser).text
    send(browser)
    shown = wait_end(browser, app)
    assert shown["conducted"]["problems"] == ["topic orders lacks a copy", "group shop is unknown"]
    assert "nothing was changed" in shown["conducted"]["trouble"]
    assert shown["stands"] == "the last switchover a->b was refused before its begin; nothing is under way"
    assert shown["report"]["state"] == "refused"
    assert not sources.brokers.fenced


def test_a_failed_step_is_continued_or_undone(browser: Browser, app: ConsoleApp, sources: FakeSources) -> None:
    sources.kill.at = 25
    send(browser)
    shown = wait_end(browser, app)
    assert "TW-FAULT-04" in shown["conducted"]["trouble"]
    assert shown["report"]["state"] == "running"
    assert titles(shown) == ["Continue", "Undo", "Fail over without the source"]
    assert shown["report"]["next"] == ["choose Continue: it goes on there; Undo undoes it"]
    assert shown["stands"].startswith("a->b is running, last step ")
    text = browser.get(f"/ui/switchover?{urlencode({'flow': FLOW})}").text
    assert "same command" not in text
    assert "--abort" not in text
    conducted = app.site.conductor.find(FLOW)
    assert conducted is not None
    conducted.runs = True
    assert page(browser)["report"]["next"] == [], "a console that works on it leaves nothing to a user"
    conducted.runs = False
    assert "keeps the fence and the limits of its begin" in confirm(browser).text
    sources.kill.at = -1
    # The scripted owner is this process, which may continue.
    send(browser, mode="abort")
    undone = wait_end(browser, app)
    assert undone["report"]["state"] == "aborted"
    assert not sources.brokers.fenced
    send(browser)
    assert wait_end(browser, app)["report"]["state"] == "done"


@pytest.mark.parametrize("undone", [True, False], ids=["of an undone switchover", "of a lost journal"])
def test_a_fence_that_no_journal_tells_of_is_offered_to_be_lifted(
    browser: Browser, app: ConsoleApp, sources: FakeSources, undone: bool
) -> None:
    brokers = sources.brokers
    if undone:
        sources.kill.at = 25
        send(browser)
        wait_end(browser, app)
        sources.kill.at = -1
        send(browser, mode="abort")
        assert titles(wait_end(browser, app))[-1] == "Switch back"
    brokers.fenced, brokers.noted_fence = True, FENCE_PLAN
    read_again(app)
    shown = page(browser)
    assert shown["fence_left"]
    assert titles(shown)[-1] == "Lift the fence"
    text = browser.get(f"/ui/switchover?{urlencode({'flow': FLOW})}").text
    assert "are still fenced by an earlier switchover" in text
    assert "The fence that an earlier switchover left is lifted" in confirm(browser, mode="release").text
    assert send(browser, mode="release").status == 303
    wait_end(browser, app)
    assert not brokers.fenced
    assert not brokers.noted_fence
    read_again(app)
    assert titles(page(browser))[-1] == "Switch back"


def read_again(app: ConsoleApp) -> None:
    """Have the journal on the source read; a read that began before may be the next, so two are waited for."""
    poller = app.site.live.flow(FLOW).other_journal
    for _ in range(2):
        version = poller.reading.version
        poller.hurry()
        assert poller.wait_reading(DEADLINE_S, version).version > version


@pytest.mark.parametrize("began_ms", [0, 10**15], ids=["earlier", "later"])
def test_a_later_switchover_in_the_other_direction_ends_the_shown_switchover(
    browser: Browser, app: ConsoleApp, sources: FakeSources, began_ms: int
) -> None:
    send(browser)
    assert titles(wait_end(browser, app))[-1] == "Lift the fence"
    options = SwitchoverOptions(SwitchoverKind.EMERGENCY)
    run = SwitchoverRun("one", sources.brokers.ends.back, options, SwitchoverState.DONE, began_ms)
    opened = {("open", StepPhase.DONE): JournalEntry(began_ms, {})}
    sources.brokers.earlier = JournalEntries(run, opened)
    read_again(app)
    shown = page(browser)
    state = "returned" if began_ms else "done"
    assert shown["stands"] == f"the last switchover {FLOW} is {state}; nothing is under way"
    assert shown["report"]["state"] == state
    assert (titles(shown)[-1] == "Lift the fence") is not bool(began_ms)


def test_the_fence_of_a_silent_source_is_unknown(
    browser: Browser, app: ConsoleApp, sources: FakeSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_world: object) -> NoReturn:
        raise ClusterError("cluster a: no broker answers")

    sources.brokers.noted_fence = FENCE_PLAN
    assert page(browser)["fence_left"]
    monkeypatch.setattr(ScriptedClusters, "read_earlier_journal", fail)
    read_again(app)
    assert not page(browser)["fence_left"]


def test_options_reach_the_switchover(browser: Browser, app: ConsoleApp, sources: FakeSources) -> None:
    send(browser, fence="quota", near="5", timeout="7")
    conducted = app.site.conductor.find(FLOW)
    assert conducted is not None
    options = conducted.request.options
    assert (options.kind, options.fence, options.near, options.at_most_s) == (SwitchoverKind.PLANNED, "quota", 5, 7.0)
    wait_end(browser, app)


def test_the_end_of_the_console_names_an_interrupted_switchover(
    sources: FakeSources, caplog: pytest.LogCaptureFixture
) -> None:
    app = console_app(sources)
    browser = Browser(app)
    sources.gate.clear()
    send(browser)
    app.close()
    assert f"TW-SWITCH-17: switchover {FLOW} is interrupted" in caplog.text
    sources.gate.set()

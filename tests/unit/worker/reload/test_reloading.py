"""A file that was changed is read again: what is wrong changes nothing, and what is right is told in the log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.config.file_changes import RunningFile
from twinlog.config.keys.key import UpdateMode
from twinlog.config.load import load_file
from twinlog.settings.flow import FlowSettings
from twinlog.worker.reload.reload_report import ReloadedKey, ReloadReport
from twinlog.worker.reload.reload_requests import ReloadRequest, answer_key, answered_by, flow_id
from twinlog.worker.reload.reloading import ReloadableFile, Reloader

FILE = """\
clusters = a, b
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
a->b.enabled = true
b->a.enabled = true
"""


@dataclass
class Running:
    settings: FlowSettings
    stands_by: bool = False
    changing: bool = False
    status: tuple[str, str | None] = ("running", None)


@dataclass
class Flows:
    """Take over at once, but for those that are `slow`."""

    flows: Sequence[Running] = ()
    taken: list[Sequence[FlowSettings]] = field(default_factory=list)

    def take_over(self, flows: Sequence[FlowSettings], all_enabled: Sequence[FlowSettings]) -> threading.Event:
        self.taken.append(flows)
        done = threading.Event()
        done.set()
        return done


class Process:
    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_text(FILE)
        loaded = load_file(file)
        self.flows = Flows([Running(flow) for flow in loaded.config.flows])
        self.clock = VirtualClock()
        self.reloader = Reloader(
            ReloadableFile("f", RunningFile.of(loaded), lambda: load_file(file)), self.flows, self.clock
        )

    def reload(self, text: str, *, only_look: bool = False) -> ReloadReport:
        self.file.write_text(text)
        return self.reloader.reload("SIGHUP", only_look=only_look)


@pytest.fixture
def process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Process]:
    with caplog.at_level(logging.INFO):
        yield Process(tmp_path / "mm2.properties")


def test_a_file_that_is_wrong_changes_nothing(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    report = process.reload(f"{FILE}a->b.topics = (x\ntopics.inclde = y\n")
    assert process.flows.taken == []
    assert [problem.split(": ")[2] for problem in report.problems] == ["a->b.topics", "topics.inclde"]
    assert f"{process.file}:6: a->b.topics: an unclosed parenthesis" in caplog.text
    assert caplog.messages[-1] == (
        "TW-RELOAD-01: f: this version is wrong, the earlier version stays in effect (read again for SIGHUP)"
    )
    # It runs on as before, and what is right later is compared with that.
    report = process.reload(f"{FILE}a->b.topics = x\n")
    assert [key.text for key in report.keys] == [f"{process.file}:6: a->b.topics = x (not written before)"]
    assert len(process.flows.taken) == 1


def test_the_log_has_what_was_taken_over_and_what_was_not(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    report = process.reload(f"{FILE}a->b.topics = x\ntasks.max = 2\nb.sasl.jaas.config = secret\n")
    assert report.needs_restart
    assert report.flows == {"a->b": "runs with its new settings", "b->a": "unchanged"}
    assert [(key.takes, key.flows) for key in report.keys] == [
        (UpdateMode.AT_ONCE, ("a->b",)),
        (UpdateMode.RESTART, ("a->b", "b->a")),
        (UpdateMode.NOTHING, ()),
    ]
    lines = caplog.messages
    assert f"{process.file}:6: a->b.topics = x (not written before): taken over by a->b" in lines
    assert (
        f"TW-RELOAD-02: {process.file}:7: tasks.max = 2 (not written before): needs a restart of this process, and "
        "stays as it was until then"
    ) in lines
    assert "audit: f was read again for SIGHUP; taken over: a->b.topics; needs a restart: tasks.max" in lines
    assert "secret" not in caplog.text
    (flows,) = process.flows.taken
    assert [(flow.topics, flow.tasks_max) for flow in flows] == [(("x",), 1), ((".*",), 1)]


def test_a_file_that_has_not_changed_is_left_alone(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    report = process.reload(f"{FILE}# a comment\n")
    assert report.same
    assert process.flows.taken == []
    assert caplog.messages == ["f was read again for SIGHUP, and has nothing new for the flows of this process"]


def test_who_only_looks_changes_nothing(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    first = process.reload(f"{FILE}topics = x\n", only_look=True)
    assert (process.flows.taken, caplog.messages) == ([], [])
    assert first.only_looked
    assert process.reload(f"{FILE}topics = (x\n", only_look=True).problems
    assert caplog.messages == []
    second = process.reload(f"{FILE}topics = x\n")
    assert second.keys == first.keys


def test_a_warning_that_was_logged_before_is_new_in_no_other_line(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    ignored, misplaced = "config.storage.replication.factor = 1\n", "producer.acks = all\n"
    process.reload(FILE + ignored + misplaced)
    assert [text.split(":")[0] for text in caplog.messages if "ignored here" in text] == ["TW-FILE-19"] * 2
    caplog.clear()
    process.reload(f"# a comment\n{FILE}{ignored}{misplaced}a->b.tasks.max = 3\n")
    assert not any("ignored here" in text for text in caplog.messages)
    # MirrorMaker 2 needs the first key.
    (warning,) = process.reload(FILE + ignored + misplaced, only_look=True).warnings
    assert "producer.acks" in warning


@pytest.mark.parametrize(
    ("flow", "state"),
    [
        (
            {"changing": True, "status": ("waiting", "east is away")},
            "takes over the new settings once it can: east is away",
        ),
        (
            {"changing": True, "status": ("running", None)},
            "with its old settings, and takes over the new settings in a moment",
        ),
        ({"status": ("failed", "a gap")}, "FAILED: a gap"),
        ({"stands_by": True}, "stands by, and will run with its new settings"),
    ],
)
def test_a_flow_that_cannot_take_it_over_now_is_told(process: Process, flow: dict[str, object], state: str) -> None:
    process.flows.flows = [Running(process.flows.flows[0].settings, **flow)]  # type: ignore[arg-type]
    report = process.reload(f"{FILE}a->b.topics = x\n")
    assert report.flows["a->b"].endswith(state)


def test_flows_begin_and_end(process: Process) -> None:
    text = FILE.replace("b->a.enabled = true", "emit.heartbeats.enabled = true")
    assert process.reload(text).flows == {"a->b": "unchanged", "b->a": "stops"}
    assert process.reload(FILE).flows == {"a->b": "unchanged", "b->a": "starts"}
    text = FILE.replace("b->a.enabled", "# ")
    process.reload(text)
    report = process.reload(f"{FILE}a.security.protocol = SSL\n")
    assert report.flows["b->a"].startswith("starts with the next start of the process: a.security.protocol has changed")


def test_a_report_travels_as_it_is() -> None:
    report = ReloadReport(
        "host-1",
        "mm2.properties",
        "SIGHUP",
        1,
        ("wrong",),
        ("odd",),
        (ReloadedKey("f:1: topics = x (y before)", UpdateMode.AT_ONCE, ("a->b",)),),
        3,
        {"a->b": "unchanged"},
        only_looked=True,
    )
    assert ReloadReport.decode(report.encode()) == report
    newer = report.encode().replace(b'"by"', b'"more": [1], "by"')
    assert ReloadReport.decode(newer) == report
    for broken in (None, b"", b"{}", b"[]", report.encode().replace(b'"at once"', b'"never"')):
        assert ReloadReport.decode(broken) is None


def test_a_request_reaches_who_runs_one_of_its_flows(process: Process) -> None:
    flows = process.reloader.running.config.flows
    request = ReloadRequest("7", "me on here", frozenset(map(flow_id, flows[:1])), only_look=True)
    assert ReloadRequest.decode(request.key, request.encode()) == request
    assert request.concerns(flows)
    assert not request.concerns(flows[1:])
    for key, value in ((None, b"{}"), (b"driver a->b", b"{}"), (request.key, b""), (request.key, b"{}")):
        assert ReloadRequest.decode(key, value) is None
    assert answered_by(answer_key("7", "host-1"), "7") == "host-1"
    assert answered_by(answer_key("77", "host-1"), "7") is None
    assert answered_by(request.key, "7") is None

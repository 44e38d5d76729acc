"""What `twinlog status` prints and ends with: each figure with its age, and nothing that is not known now."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from typing import Any

import pytest
import typer

from tests.unit.ops.status.test_state import NOW, OLD, REPORT, RUNS
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.errors import TwinlogError
from twinlog.model.held import HeldPartition
from twinlog.model.types import SourceOffset
from twinlog.ops.status.command import MaxLag, exit_code, watch
from twinlog.ops.status.flow import FlowSnapshot, by_report
from twinlog.ops.status.status_text import flow_json, lines
from twinlog.worker.status.report import FlowState, GroupsProgress, LogLevelProgress, ProofProgress, TopicProgress

REPORTED = replace(
    REPORT,
    partitions=3,
    copiers=1,
    records=12000,
    record_rate=1000.0,
    byte_rate=2_000_000.0,
    lag=1204,
    lag_age_s=0.4,
    lag_bytes=1_204_000,
    oldest_ms=NOW - 3000,
    eta_s=2.0,
    since_ms=0,
    last_error="gap: lost",
    last_error_ms=NOW - 200_000,
    groups=GroupsProgress(12, 1, True, NOW - 1000, True, NOW - 4000),
    topics=(TopicProgress("orders", 2, 1204, 0, 1_204_000, NOW - 3000, 0, 0, 0, 1000.0, 2_000_000.0),),
)


def seen(report: Any = REPORTED, **changes: Any) -> FlowSnapshot:
    return by_report(SETTINGS, replace(RUNS, report=report, **changes))


def line(found: FlowSnapshot, name: str) -> str:
    return next((one.strip() for one in lines(found) if one.strip().startswith(name)), "")


def test_records_are_shown_since_when_they_are_counted() -> None:
    """A process that took its flow again goes on counting."""
    assert "2033-05-18" in line(seen(replace(REPORTED, counts_since_ms=2_000_000_000_000)), "rate")


def test_a_running_flow_is_shown_with_its_figures_and_their_ages() -> None:
    text = lines(seen())
    assert text[0] == "a->b: running"
    assert line(seen(), "run by").startswith("run by      host-1 since 19")
    assert line(seen(), "run by").endswith(", last report 1 s ago")
    assert line(seen(), "standing by") == "standing by host-2 ready"
    assert line(seen(), "lag") == "lag         1,204 records, 1.2 MB, 3 s old (known 1 s ago); ETA 2 s"
    assert "1,000 records/s, 2.0 MB/s, by 1 task; 12,000 records copied since 19" in line(seen(), "rate")
    assert line(seen(), "groups") == (
        "groups      12 followed, 1 with offsets that lack an exact translation; checkpoints 1 s ago, committed on "
        "the target 4 s ago"
    )
    unsafe = replace(REPORTED, groups=GroupsProgress(12, before_start=1))
    assert "12 followed, 1 before the first record of the target; checkpoints" in line(seen(unsafe), "groups")
    assert line(seen(), "last error") == "last error  gap: lost (3 min ago)"
    over = seen(replace(REPORTED, last_error_over_ms=NOW))
    assert re.fullmatch(r"last error  gap: lost \(3 min ago, over since [-\d]+ [:\d]+\)", line(over, "last error"))
    assert line(seen(), "orders").split() == ["orders", "2", "1,204", "1.2", "MB", "3", "1,000", "2.0"]


def test_the_reason_of_the_state_is_shown_once() -> None:
    reason = "TW-AUTH-01: cluster east: the login was refused"
    found = seen(replace(REPORTED, state=FlowState.FAILED.value, detail=reason, last_error=reason))
    found = replace(found, lag=None, lag_trouble=reason.removeprefix("TW-AUTH-01: "))
    assert lines(found)[0] == f"a->b: failed: {reason}"
    assert line(found, "lag").startswith("lag         unknown; it was 1,204 records")
    assert line(found, "last error") == ""


def test_the_bridge_is_named_while_it_copies() -> None:
    assert "by the bridge until Spark has a task; " in line(seen(replace(REPORTED, bridged=True)), "rate")


def test_the_proof_is_shown_with_its_lag_and_its_differences() -> None:
    without = seen(replace(REPORTED, proof=None))
    assert (line(without, "proof"), flow_json(without)["proof"]) == ("", None)
    found = seen(replace(REPORTED, proof=ProofProgress(3, 0.25, 1000, 5_000_000)))
    assert line(found, "proof") == "proof       0.2 s behind, 5.0 MB in 3 partitions proven, 0 differences"
    found = seen(replace(REPORTED, proof=ProofProgress(1, 2.0, 1000, 5_000_000, 7, 1)))
    assert line(found, "proof").endswith("5.0 MB in 1 partition proven, 1 difference, 7 records unproved")
    assert flow_json(found)["proof"] == {
        "partitions": 1,
        "lag_s": 2.0,
        "records": 1000,
        "bytes": 5_000_000,
        "unproved": 7,
        "differences": 1,
    }


def test_a_level_of_the_log_is_shown_until_its_end() -> None:
    assert (line(seen(), "log level"), flow_json(seen())["log_level"]) == ("", None)
    level = LogLevelProgress("l1", "debug", REPORTED.at_ms + 60_000)
    found = seen(replace(REPORTED, log_level=level))
    assert line(found, "log level").startswith("log level   debug until ")
    assert flow_json(found)["log_level"] == {"level": "debug", "until_ms": level.until_ms}
    for other in (replace(level, until_ms=REPORTED.at_ms), replace(level, level="default")):
        assert flow_json(seen(replace(REPORTED, log_level=other)))["log_level"] is None


def test_what_a_transform_left_out_is_shown_where_it_left_out_any() -> None:
    assert "transform" not in line(seen(), "rate")
    text = line(seen(replace(REPORTED, failed=1_234, dropped=5)), "rate")
    assert text.endswith(", 1,234 skipped because the transform failed on them, 5 dropped by the transform")


def test_what_a_killed_process_held_is_shown_until_another_process_runs_the_flow() -> None:
    held = HeldPartition(
        "orders", 1, "gap", "TW-GAP-01", "lost", "accept it", NOW - 90_000, *map(SourceOffset, (5, 5, 9))
    )
    report = replace(REPORTED, held=1, held_by_reason=(("gap", 1),), held_partitions=(held,), at_ms=OLD.at_ms)
    dead = seen(report, processes=())
    assert lines(dead)[0].startswith("a->b: dead")
    assert line(dead, "orders-1").startswith("orders-1 TW-GAP-01 held at source offset 5")


def test_topics_that_the_target_has_not_created_are_named_and_found() -> None:
    assert line(seen(), "missing") == ""
    reasons = (("bills", "the controller is busy"), ("orders", "it lacks CREATE"))
    found = seen(replace(REPORTED, lag=0, missing=9, missing_topics=reasons))
    assert line(found, "missing") == (
        "missing     9 remote topics are still to create or grow, and all figures leave out their records: "
        "bills, orders and 7 more: the controller is busy"
    )
    assert flow_json(found)["missing"] == {"topics": 9, "first": dict(reasons)}
    assert (exit_code([seen()], None), exit_code([found], None)) == (0, 1)


def test_of_a_dead_flow_no_figure_is_shown_as_if_it_were_of_now() -> None:
    dead = seen(replace(REPORTED, at_ms=OLD.at_ms), processes=())
    assert lines(dead)[0].startswith("a->b: dead: no process runs it")
    assert line(dead, "lag") == (
        "lag         unknown; it was 1,204 records 11 s ago, the oldest record to copy at most 3 s old"
    )
    assert (line(dead, "rate"), line(dead, "orders")) == ("", "")
    assert line(dead, "run by") == "run by      last report 11 s ago from host-1"
    assert line(dead, "standing by") == "standing by nobody"
    found = flow_json(dead)
    assert (found["condition"], found["lag"]["records"], found["record_rate"]) == ("down", None, None)
    by_positions = replace(dead, by_positions=True, lag=5000)
    assert line(by_positions, "lag") == (
        "lag         5,000 records, 0 B, at most 3 s old, by stored positions and the ends of the source now; "
        "it was 1,204 records 11 s ago"
    )


def test_what_is_not_known_is_called_unknown() -> None:
    report = replace(REPORTED, lag_bytes=None, oldest_ms=None, eta_s=None, unknown=2)
    assert line(seen(report), "lag") == (
        "lag         1,204 records, of unknown age, of 2 partitions unknown (known 1 s ago); ETA unknown"
    )
    assert "more than 3 s old" in line(seen(replace(REPORTED, undated=1)), "lag")
    assert line(seen(replace(REPORTED, lag=-1, lag_age_s=0.0)), "lag") == "lag         unknown"
    topic = TopicProgress("orders", 2, unknown=1)
    found = seen(replace(REPORTED, lag=0, lag_bytes=None, oldest_ms=None, unknown=1, topics=(topic,)))
    assert re.search(r"orders +2 +0 \+ 1 unknown +\? +\? ", "\n".join(lines(found)))
    data = flow_json(found)
    assert (data["lag"]["bytes"], data["lag"]["seconds"]) == (None, None)
    assert (data["topics"][0]["lag"]["bytes"], data["topics"][0]["lag"]["seconds"]) == (None, None)


def test_a_target_that_does_not_answer_shows_nothing_but_that() -> None:
    found = seen(target_trouble="no broker of b answers")
    assert lines(found)[0] == "a->b: unknown: TW-WAIT-01: the target is silent: no broker of b answers"
    assert (line(found, "run by"), line(found, "standing by")) == ("", "")


def test_a_process_that_took_over_is_not_mixed_up_with_the_one_before() -> None:
    after = seen(processes=(replace(RUNS.processes[1], leads=True),))
    assert "host-2" in line(after, "run by")
    assert line(after, "run by").endswith("last report 1 s ago from host-1")


@pytest.mark.parametrize(
    ("found", "limit", "code"),
    [
        ([seen()], None, 0),
        ([seen()], "1204", 0),
        ([seen()], "1203", 1),
        ([seen()], "3s", 0),
        ([seen()], "2.9s", 1),
        ([seen(replace(REPORTED, unknown=1))], "9999", 1),
        ([seen(replace(REPORTED, oldest_ms=None))], "9999s", 1),
        ([seen(replace(REPORTED, lag=0, oldest_ms=None))], "0s", 0),
        ([seen(), seen(processes=())], None, 1),
        ([seen(replace(REPORTED, state="waiting"))], "9999", 1),
        ([seen(), seen(target_trouble="x"), seen(processes=())], None, 3),
        ([], None, 1),
    ],
)
def test_scripts_get_the_worst(found: list[FlowSnapshot], limit: str | None, code: int) -> None:
    assert exit_code(found, None if limit is None else MaxLag.of(limit)) == code


def test_a_limit_is_records_or_seconds() -> None:
    assert (MaxLag.of("1000"), MaxLag.of("2.5s")) == (MaxLag(1000, False), MaxLag(2.5, True))
    assert MaxLag.of("5m") == MaxLag.of("5min") == MaxLag(300, True)
    for text in ("", "s", "-1", "1d", "x"):
        with pytest.raises(typer.BadParameter, match="write records as 1000") as refused:
            MaxLag.of(text)
        assert refused.value.param_hint == "--max-lag"


def test_while_nothing_answers_a_screen_says_so_below_what_it_showed_last() -> None:
    released = threading.Event()
    shown: list[str] = []
    looks = iter(["first", "second"])

    def look() -> str:
        found = next(looks, None)
        if found == "second":
            assert released.wait(60)
        if found is None:
            raise TwinlogError("no right")
        return found

    def late(text: str) -> None:
        if not released.is_set():
            shown.append(text)
        released.set()

    with pytest.raises(TwinlogError, match="no right"):
        watch(look, shown.append, late, sleep=lambda _: None, every_s=0.02)
    assert (shown[0], shown[-1]) == ("first", "second")
    assert "first\n\nno answer for 0 s, all above is older" in shown[:-1]


def test_a_look_that_ends_just_when_it_is_late_is_shown() -> None:
    # Each second one ends in that moment.
    left = iter(range(50))

    def look() -> str:
        if (number := next(left, None)) is None:
            raise TwinlogError("over")
        return str(number)

    shown: list[str] = []
    with pytest.raises(TwinlogError, match="over"):
        watch(look, shown.append, None, sleep=lambda _: None, every_s=0.0)
    assert shown == [str(number) for number in range(50)]


def test_what_is_paused_is_shown_apart_from_the_rest() -> None:
    topics = (
        replace(REPORTED.topics[0], paused=2, paused_lag=7),
        TopicProgress("logs", paused=3, paused_lag=1500),
        TopicProgress("new", paused=1),
    )
    found = seen(replace(REPORTED, topics=topics, paused=6, paused_lag=None))
    assert line(found, "paused") == (
        "paused      6 partitions, which all other figures leave out; `twinlog topics` shows them"
    )
    assert line(found, "orders").endswith("2 more partitions paused")
    assert line(found, "logs").split() == ["logs", "3", "1,500", "-", "-", "-", "-", "paused"]
    assert line(found, "new").split() == ["new", "1", "?", "-", "-", "-", "-", "paused"]
    known = seen(replace(REPORTED, paused=1, paused_lag=1507))
    assert line(known, "paused").startswith("paused      1 partition, 1,507 records behind, which")
    assert line(seen(), "paused") == ""
    shown = flow_json(found)
    assert shown["paused"] == {"partitions": 6, "records": None}
    assert [one["paused"] for one in shown["topics"]] == [
        {"partitions": 2, "records": 7},
        {"partitions": 3, "records": 1500},
        {"partitions": 1, "records": None},
    ]

"""Topics that MirrorMaker 2, or another process of twinlog, copies under another group id are left to it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from harness.virtual.groups import Member, VirtualGroup
from tests.unit.worker.topics.refreshing import World, world
from twinlog.errors import RefusedError
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.model.types import TopicName
from twinlog.worker.status.report import DriverReport, TopicProgress, encode_report
from twinlog.worker.topics.other_copiers import SETTLE_MS, STALE_S, assigned_topics
from twinlog.worker.topics.topic_refresh import ELSEWHERE_S

CONFIGS = "mm2-configs.east.internal"
PROGRESS = "mm2-twinlog-progress.east.internal"
WAVE = "east-mm2-wave"


def mirror_maker_runs(here: World, *, runs: bool = True) -> None:
    """MirrorMaker 2's workers are in their group, or have left it."""
    members = {"w-1": Member("worker-1", 10.0, 10.0, {}, here.loop.clock.monotonic())} if runs else {}
    here.target.groups.groups["east-mm2"] = VirtualGroup("Stable" if runs else "Empty", "connect", members=members)


def write(here: World, topic: str, *records: tuple[str, bytes], behind_s: float = 0.0) -> None:
    """Append records by a program whose clock is behind."""
    admin = here.admins[1]
    writer = TopicWriter(admin.client, TopicName(topic), 5.0, "a test")
    now_ms = round((here.loop.clock.wall() - behind_s) * 1000)
    admin.call(partial(writer.append, [(key.encode(), value) for key, value in records], timestamp_ms=now_ms))


def tasks(*assigned: str) -> list[tuple[str, bytes]]:
    """Records of the tasks of MirrorMaker 2 as Connect stores them, with the partitions of each."""
    found = [
        (f"task-MirrorSourceConnector-{number}", {"properties": {"task.assigned.partitions": partitions}})
        for number, partitions in enumerate(assigned)
    ]
    found.append(("commit-MirrorSourceConnector", {"tasks": len(assigned)}))  # type: ignore[dict-item]
    return [(key, json.dumps(value).encode()) for key, value in found]


def report(here: World, group: str, topic: str, *, state: str = "running", age_s: float = 0.0) -> tuple[str, bytes]:
    at_ms = round((here.loop.clock.wall() - age_s) * 1000)
    made = DriverReport("east->west", "host-7", at_ms, at_ms, state, topics=(TopicProgress(topic, 1),), group=group)
    return "driver east->west", encode_report(made, 100_000)


def test_topics_that_mirror_maker_2_copies_wait_until_it_leaves_them(caplog: pytest.LogCaptureFixture) -> None:
    with world(worker_group_id=WAVE) as here:
        here.source.create("a", 2)
        here.source.create("b")
        here.target.create(CONFIGS)
        mirror_maker_runs(here)
        write(here, CONFIGS, *tasks("a-0,c-0", "a-1"))
        here.pass_by(60)
        here.refresh()
        assert here.copied == {"b": 1}
        assert (
            "east-mm2 of west has the members worker-1 at 10.0.0.1, and its task MirrorSourceConnector-0" in caplog.text
        )
        with pytest.raises(RefusedError, match=r"^a: MirrorMaker 2 runs: .* restart MirrorMaker 2: twinlog waits"):
            here.topics.require_all()
        # Task 1 of before is left over in the topic, and its last records may be under way.
        write(here, CONFIGS, *tasks("c-0"))
        here.refresh()
        assert here.copied == {"b": 1}
        assert "has just changed its tasks" in here.topics.copied_elsewhere[TopicName("a")]
        assert here.topics.due_at - here.loop.clock.monotonic() <= ELSEWHERE_S
        here.pass_by(SETTLE_MS / 1000)
        here.refresh()
        assert here.copied == {"a": 2, "b": 1}
        assert "east->west: copied here from now on: a" in caplog.text
        here.topics.require_all()
        # An operator gives a topic back before its process here has left it.
        write(here, CONFIGS, *tasks("c-0,b-0"))
        here.refresh()
        assert "b: MirrorMaker 2 runs" in caplog.text
        assert here.copied == {"a": 2}


def test_a_stopped_mirror_maker_2_would_first_copy_the_topics_of_its_stored_tasks() -> None:
    with world(worker_group_id=WAVE) as here:
        here.source.create("a")
        here.source.create("b")
        here.target.create(CONFIGS)
        write(here, CONFIGS, *tasks("a-0"))
        mirror_maker_runs(here, runs=False)
        here.refresh()
        assert here.copied == {"b": 1}
        assert "MirrorMaker 2 is stopped, and its task" in here.topics.copied_elsewhere[TopicName("a")]
        assert "remove `group.id`" in here.topics.copied_elsewhere[TopicName("a")]


def test_new_tasks_of_mirror_maker_2_leave_a_topic_that_is_copied_here() -> None:
    with world(worker_group_id=WAVE) as here:
        here.source.create("a")
        here.target.create(CONFIGS)
        here.refresh()
        mirror_maker_runs(here)
        write(here, CONFIGS, *tasks("c-0"))
        here.refresh()
        assert here.copied == {"a": 1}


def test_an_unknown_assignment_holds_everything(caplog: pytest.LogCaptureFixture) -> None:
    with world(worker_group_id=WAVE) as here:
        here.source.create("a")
        mirror_maker_runs(here)
        here.refresh()
        assert here.copied == {}
        reason = f"topic {CONFIGS}, which lists their topics, is missing"
        assert reason in here.topics.left_out[TopicName("a")]
        assert reason in (here.topics.nothing or "")
        assert caplog.text.count(reason) == 1
        assert "no topic of east is mirrored, of 1 that can be seen (another process copies it now: a)" in caplog.text


def test_with_its_own_group_mirror_maker_2_is_kept_away_by_the_group() -> None:
    with world() as here:
        here.source.create("a")
        mirror_maker_runs(here)
        here.refresh()
        assert here.copied == {"a": 1}


@pytest.mark.parametrize("own", [None, WAVE])
def test_topics_of_a_process_with_another_group_wait_for_its_end(own: str | None) -> None:
    with world(worker_group_id=own) as here:
        here.source.create("a")
        here.source.create("b")
        write(here, PROGRESS, report(here, "east-mm2-first", "a"), report(here, own or "east-mm2", "b"))
        here.refresh()
        assert here.copied == {"b": 1}
        assert (
            "process host-7 of twinlog copies it with group.id = east-mm2-first" in here.topics.left_out[TopicName("a")]
        )
        write(here, PROGRESS, report(here, "east-mm2-first", "a", state="stopped"))
        here.refresh()
        assert here.copied == {"a": 1, "b": 1}


def test_an_old_report_holds_nothing() -> None:
    with world() as here:
        here.source.create("a")
        write(here, PROGRESS, report(here, "east-mm2-first", "a", age_s=60.0))
        here.refresh()
        assert here.copied == {"a": 1}


@pytest.mark.parametrize("age_s", [600.0, -600.0])
def test_a_host_with_another_clock_is_not_overlooked(age_s: float) -> None:
    with world(worker_group_id=WAVE) as here:
        here.source.create("a")
        here.source.create("b")
        members = {"t-1": Member("twinlog-host-7", 10.0, 10.0, {}, here.loop.clock.monotonic())}
        here.target.groups.groups["east-mm2-first"] = VirtualGroup("Stable", "twinlog", members=members)
        write(here, PROGRESS, report(here, "east-mm2-first", "a", age_s=age_s))
        here.refresh()
        assert here.copied == {"b": 1}
        # The other process left its group, which another flow has as well, and its topic is free.
        members = {"t-2": Member("twinlog-host-8", 10.0, 10.0, {}, here.loop.clock.monotonic())}
        here.target.groups.groups["east-mm2-first"] = VirtualGroup("Stable", "twinlog", members=members)
        here.refresh()
        assert here.copied == {"a": 1, "b": 1}
        # A report that arrives now counts, whatever its time.
        write(here, PROGRESS, report(here, "east-mm2-first", "b", age_s=age_s))
        here.refresh()
        assert here.copied == {"a": 1}
        here.pass_by(STALE_S + 1)
        here.refresh()
        assert here.copied == {"a": 1, "b": 1}


def test_of_two_processes_with_a_topic_the_first_by_name_keeps_it() -> None:
    for other, kept in (("east-mm2-a", {}), ("east-mm2-z", {"a": 1})):
        with world(worker_group_id=WAVE) as here:
            here.source.create("a")
            here.refresh()
            write(here, PROGRESS, report(here, other, "a"))
            here.refresh()
            assert here.copied == kept


def test_a_change_that_is_seen_counts_by_the_clock_of_this_process() -> None:
    with world(worker_group_id=WAVE) as here:
        here.source.create("a")
        here.target.create(CONFIGS)
        mirror_maker_runs(here)
        write(here, CONFIGS, *tasks("a-0"), behind_s=3_600)
        here.refresh()
        write(here, CONFIGS, *tasks("c-0"), behind_s=3_600)
        here.refresh()
        assert here.copied == {}
        here.pass_by(SETTLE_MS / 1000)
        here.refresh()
        assert here.copied == {"a": 1}
        # MirrorMaker 2 may take the topic again at any time.
        assert here.topics.due_at - here.loop.clock.monotonic() <= ELSEWHERE_S


def test_a_connector_has_the_group_of_its_worker() -> None:
    with world() as here:
        settings = replace(here.settings, kind="source")
        assert not settings.has_own_group


@pytest.mark.parametrize(
    ("value", "topics"),
    [
        (b'{"properties": {"task.assigned.partitions": "a-0,b-c-11"}}', {"a", "b-c"}),
        (b'{"properties": {"task.assigned.groups": "g"}}', set()),
        (b'{"properties": 1}', set()),
        (b"[1]", set()),
        (b"{", set()),
        (None, set()),
    ],
)
def test_topics_are_read_from_a_tasks_configuration(value: bytes | None, topics: set[Any]) -> None:
    assert assigned_topics(value) == topics


@pytest.mark.parametrize("configured", [False, True])
def test_a_hidden_group_holds_topics_only_where_mirror_maker_2_has_run(
    configured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hidden(*_: object) -> object:
        raise RefusedError("lacks DESCRIBE on group east-mm2")

    monkeypatch.setattr(GroupAdmin, "described", hidden)
    with world(worker_group_id=WAVE) as here:
        here.source.create("a")
        if configured:
            here.target.create(CONFIGS)
        here.refresh()
        assert here.copied == ({} if configured else {"a": 1})
        assert ("lacks DESCRIBE" in here.topics.copied_elsewhere.get(TopicName("a"), "")) is configured

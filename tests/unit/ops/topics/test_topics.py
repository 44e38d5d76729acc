"""`twinlog topics`, in virtual time: what it prints and asks of a flow that nobody runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from twinlog.cli.main import app
from twinlog.console.flow_files import read_flows
from twinlog.console.options import at_work
from twinlog.errors import GapError, OptionError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.positions import Position, encode_position
from twinlog.model.held import HeldPartition
from twinlog.model.types import Alias, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.topics import reader as topics
from twinlog.settings.client import ClientSettings
from twinlog.worker.control import records
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    LogPlace,
    LogPlaceKind,
    PartitionMove,
    PartitionSelector,
    TopicCommand,
    TopicVerb,
)
from twinlog.worker.status.report import DriverReport, TopicProgress, encode_report

FILE = """\
clusters = s, w
s.bootstrap.servers = s-1:9092
w.bootstrap.servers = w-1:9092
s->w.enabled = true
{more}
"""
PROGRESS, POSITIONS = "mm2-twinlog-progress.s.internal", "mm2-offsets.s.internal"
CONTROL = "mm2-twinlog-control.s.internal"


class Scene:
    """The topics `orders`, `logs` and `orders-3` have ten records in each partition, four of them copied."""

    def __init__(self, loop: VirtualLoop, home: Path, connected: Sequence[str] = ()) -> None:
        self.connected = connected
        """The aliases of the clusters that readers connected to."""
        self.source, self.target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        self._loop = loop
        self.file = home / "mm2.properties"
        self.target.create(PROGRESS)
        self.target.create(POSITIONS)
        for topic, count in (("orders", 4), ("logs", 1), ("orders-3", 1)):
            self.source.create(topic, count)
            for number in range(count):
                self.source.write(topic, *(b"%d" % one for one in range(10)), partition=number)
                part = TopicPartition(TopicName(topic), number)
                position = Position(SourceOffset(4), TargetOffset(4), topic_id=str(self.source.topics.ids[topic]))
                self._put(POSITIONS, encode_position(Alias("s"), part, position))

    def _put(self, topic: str, record: Any) -> None:
        headers = getattr(record, "headers", ())
        batch = encode_batch([(int(self._loop.clock.wall() * 1000), record_body(record.key, record.value, headers))])
        stamp(batch, -1, -1, -1)
        self.target.log(topic).append(bytes(batch))
        self.target.news()

    def report(self, **fields: Any) -> None:
        """A process runs the flow, and reports."""
        at_ms = int(self._loop.clock.wall() * 1000)
        report = DriverReport("s->w", "host-1", at_ms, at_ms, "running", **fields)
        record = type("Record", (), {"key": b"driver s->w", "value": encode_report(report, 100_000)})
        self._put(PROGRESS, record)

    def applied(self, verb: str, before: SourceOffset, after: SourceOffset, place: LogPlace | None = None) -> None:
        """A command has moved the partition of `logs`."""
        if place is None and verb != "accept-gap":
            place = LogPlace(LogPlaceKind.OFFSET, after)
        command = TopicCommand(f"{verb} {after}", TopicVerb(verb), (PartitionSelector("logs"),), place)
        moved = PartitionMove(TopicPartition(TopicName("logs"), 0), before, after, changes=True)
        outcome = CommandOutcome(command, CommandState.APPLIED, int(self._loop.clock.wall() * 1000))
        written = [records.command_record("s->w", command), *records.move_records("s->w", command, [moved])]
        if CONTROL not in self.target.topics.ids:
            self.target.create(CONTROL)
        for record in [*written, records.result_record("s->w", outcome)]:
            self._put(CONTROL, type("Record", (), {"key": record[0], "value": record[1]}))

    def held(self, at: int, resume_at: int) -> HeldPartition:
        """The partition of `logs`, held for a gap, or for a right if `resume_at` is -1."""
        error = GapError("logs-0: gone", kind="retention", resume_at=resume_at, way_out="accept-gap")
        held = RefusedError("it lacks WRITE", resource="topic s.logs") if resume_at < 0 else error
        offsets = {"source_offset": SourceOffset(at), "target_offset": TargetOffset(4)}
        return HeldPartition.by(held, TopicPartition(TopicName("logs"), 0), 0, **offsets)

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self._loop.clock.sleep(seconds)

    def call(self, *words: str, answer: str = "", more: str = "") -> tuple[int, str, str]:
        """The exit code of `twinlog topics`, and what it prints on stdout and stderr."""
        self.file.write_text(FILE.format(more=more))
        head, *rest = words
        done = CliRunner().invoke(app, ["topics", head, str(self.file), *rest], input=answer)
        return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Scene]:
    with virtual_loop(1) as loop:

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            made.append(alias)
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        made: list[str] = []
        # It is the process's own.
        monkeypatch.setattr("twinlog.ops.topics.commands.log_warnings", lambda: None)
        monkeypatch.setattr(topics, "TopicsReader", partial(topics.TopicsReader, connect=connect))
        yield Scene(loop, tmp_path, made)


def flow_of(out: str) -> dict[str, Any]:
    (flow,) = json.loads(out)["flows"]
    return dict(flow)


def test_a_file_alone_is_listed(here: Scene, tmp_path: Path) -> None:
    code, out, _ = here.call("list")
    assert code == 0
    same = CliRunner().invoke(app, ["topics", str(tmp_path / "mm2.properties")])
    assert (same.exit_code, same.stdout) == (0, out)
    assert out.splitlines()[0].startswith("s->w: not running")
    assert "orders             4   24  waiting: the flow is not running" in out


def test_each_partition_has_its_state_and_offsets(here: Scene) -> None:
    troubled = TopicProgress("orders", 4, trouble="orders-2: source partition orders-2 has no leader")
    here.report(topics=(troubled,), left_out=(("orders-3", "another flow writes it"),))
    assert here.call("pause", "logs", "--timeout", "0")[0] == 3
    assert here.call("release", "orders", "--partition", "1", "--timeout", "0")[0] == 3
    found = flow_of(here.call("list", "-o", "json")[1])
    states = {one["topic"]: one["states"] for one in found["topics"]}
    # What is asked and not done yet is shown as that.
    assert states == {"logs": {"asked": 1}, "orders": {"copying": 2, "asked": 1, "waiting": 1}, "orders-3": {}}
    by_topic = {one["topic"]: one for one in found["topics"]}
    assert by_topic["orders-3"]["left_out"] == "another flow writes it"
    assert by_topic["orders"]["lag"] == 24
    assert by_topic["orders"]["partitions"][2] == {
        "partition": 2,
        "state": "waiting",
        "detail": "source partition orders-2 has no leader",
        "source_offset": 4,
        "target_offset": 4,
        "source_start": 0,
        "source_end": 10,
        "lag": 6,
    }
    assert [one["verb"] for one in found["commands"]] == ["pause", "release"]
    text = here.call("list", "--partitions")[1]
    assert "orders 2 4 10 6 4 waiting: source partition orders-2 has no leader" in " ".join(text.split())
    assert "left out: another flow writes it" in text
    assert "paused by" in text
    assert "and not done yet: release orders partition 1" in text


def test_a_partition_has_all_its_pending_commands_in_their_order(here: Scene) -> None:
    for word in ("pause", "resume"):
        assert here.call(word, "orders", "--partition", "1")[0] == 0
    assert here.call("skip-to", "orders-1", "--latest", "--yes")[0] == 0
    (orders,) = (one for one in flow_of(here.call("list", "-o", "json")[1])["topics"] if one["topic"] == "orders")
    assert orders["partitions"][1]["detail"] == (
        "pause orders partition 1, then resume orders partition 1, then skip-to latest orders partition 1"
    )
    assert "asked: pause orders partition 1, then resume" in here.call("list", "--partitions")[1]


def test_partitions_without_a_remote_partition_wait_for_the_target(here: Scene) -> None:
    here.target.create("s.orders", 3)
    here.report(missing=2, missing_topics=(("logs", "the controller is busy"), ("orders", "it lacks ALTER")))
    out = flat(here.call("list")[1])
    assert "logs 1 6 waiting: the controller is busy" in out
    assert "orders 4 24 3 copying, 1 waiting: it lacks ALTER" in out


def test_a_topic_that_was_created_again_is_behind_by_all_of_its_records(here: Scene) -> None:
    error = GapError("logs-0: created again", kind="recreated", resume_at=0, way_out="")
    offsets = {"source_offset": SourceOffset(4), "target_offset": TargetOffset(4)}
    held = HeldPartition.by(error, TopicPartition(TopicName("logs"), 0), 0, **offsets)
    here.report(held=1, held_partitions=(held,))
    assert "logs 1 10 held: TW-GAP-03" in flat(here.call("list")[1])


def test_a_held_topic_that_is_hidden_from_the_login_is_listed(here: Scene) -> None:
    error = RefusedError("cluster s: User:m lacks READ on topic logs", resource="topic logs")
    part = TopicPartition(TopicName("logs"), 0)
    held = HeldPartition.by(error, part, 0, source_offset=SourceOffset(4), target_offset=TargetOffset(4))
    here.report(held=1, held_partitions=(held,))
    here.source.topics.hidden.add("logs")
    assert "held: TW-RIGHT-01: cluster s: User:m lacks READ" in flat(here.call("list")[1])


@pytest.mark.parametrize(
    ("command", "held_at", "resume_at", "text"),
    [
        (("accept-gap",), 2, 4, "the gap was accepted 3 s ago"),
        # Its log was cut back.
        (("accept-gap",), 9, 4, "the gap was accepted 3 s ago"),
        (("skip-to", "--to-offset", "4"), 3, -1, "the offsets were passed over 3 s ago"),
        # The partition was copied further in the meantime.
        (("skip-to", "--to-offset", "3"), 2, -1, "the offsets were passed over 3 s ago"),
    ],
)
def test_a_command_that_is_done_already_says_so_while_the_last_report_has_the_partition_as_held(
    here: Scene, command: Sequence[str], held_at: int, resume_at: int, text: str
) -> None:
    verb, *place = command
    at = int(place[1]) if place else 4
    here.applied(verb, SourceOffset(held_at), SourceOffset(at))
    here.report(held=1, held_partitions=(here.held(held_at, resume_at),))
    here.pass_by(3)
    code, out, err = here.call(verb, "logs", *place)
    assert (code, err) == (0, "")
    assert f"{text}; the process takes it up at its next report" in flat(out)
    here.report()
    code, out, _ = here.call(verb, "logs", *place, "--dry-run")
    assert (code, "next report" in out) == (0, False)
    assert text in flat(out)


def test_a_partition_that_is_held_again_after_the_same_command_has_the_new_reason(here: Scene) -> None:
    here.applied("accept-gap", SourceOffset(2), SourceOffset(4))
    here.report(held=1, held_partitions=(here.held(4, -1),))
    code, out, _ = here.call("accept-gap", "logs")
    assert code == 1
    assert "the partition is held for TW-RIGHT-01, way out" in flat(out)


def test_another_command_since_then_is_no_repetition(here: Scene) -> None:
    here.applied("accept-gap", SourceOffset(2), SourceOffset(3))
    here.applied("skip-to", SourceOffset(3), SourceOffset(4), LogPlace(LogPlaceKind.OFFSET, 4))
    code, out, err = here.call("accept-gap", "logs")
    assert (code, "accepted" in out) == (1, False)
    assert "TW-USE-04: nothing changes" in flat(err)


def test_a_partition_without_a_gap_is_shown_with_the_reason_for_which_it_is_held(here: Scene) -> None:
    error = RefusedError("it lacks WRITE", resource="topic s.logs")
    offsets = {"source_offset": SourceOffset(4), "target_offset": TargetOffset(4)}
    held = HeldPartition.by(error, TopicPartition(TopicName("logs"), 0), 0, **offsets)
    here.report(held=1, held_partitions=(held,))
    code, out, _ = here.call("accept-gap", "logs")
    assert code == 1
    assert "there is no gap: the source has what comes next; the partition is held for TW-RIGHT-01, way" in flat(out)


def test_a_caller_that_has_a_topic_never_gets_a_partition_of_another(here: Scene) -> None:
    here.call("list")
    (flow,) = at_work(read_flows(here.file))
    with topics.TopicsReader(flow) as reader:
        assert reader.selectors(["orders-2"]) == (PartitionSelector("orders", (2,)),)
        with pytest.raises(OptionError, match="orders-2 matches no topic"):
            reader.selectors(["orders-2"], partitions_by_name=False)
        assert reader.selectors(["orders-3"], partitions_by_name=False) == (PartitionSelector("orders-3"),)


def test_topics_and_the_state_of_their_flow_are_read_over_the_same_connections(here: Scene) -> None:
    here.report(held=1)
    assert here.call("list")[0] == 0
    assert sorted(here.connected) == ["s", "w"]


def test_a_misspelled_command_is_no_file(here: Scene, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["topics", "pauze", str(tmp_path / "mm2.properties"), "orders"])
    assert done.exit_code == 2
    assert "No such command 'pauze'" in flat(done.stderr)


def test_a_word_is_a_topic_before_it_is_a_partition(here: Scene) -> None:
    def meant(*words: str) -> list[str]:
        out = here.call("restart-from", *words, "--earliest", "--dry-run", "-o", "json")[1]
        return [f"{one['topic']}-{one['partition']}" for one in json.loads(out)["partitions"]]

    assert meant("orders-2") == ["orders-2"]
    assert meant("orders-3") == ["orders-3-0"]
    assert meant("orders", "--partition", "3") == ["orders-3"]
    assert meant("lo.*", "orders-1") == ["logs-0", "orders-1"]
    assert meant("lo.*", "--topic", "orders-1") == ["logs-0", "orders-1"]
    assert meant("--topic", "lo.*", "--topic", "orders-1") == ["logs-0", "orders-1"]
    code, _, err = here.call("pause", "rders")
    assert code == 2
    assert "rders matches no topic that s->w mirrors; it mirrors logs, orders, orders-3" in flat(err)
    assert here.call("pause", "orders-7")[0] == 2
    assert here.call("pause", "orders(")[0] == 2


def flat(text: str) -> str:
    """Without the frame that errors have."""
    return " ".join(text.replace("│", " ").split())


def test_what_is_lost_is_shown_and_confirmed(here: Scene) -> None:
    code, out, err = here.call("skip-to", "orders", "--to-offset", "9", answer="n\n")
    assert code == 1
    assert "4 partitions: 20 source offsets will be passed over and never copied" in out
    assert "the command was dropped" in err
    # Nobody is there to confirm it.
    code, _, err = here.call("skip-to", "orders", "--to-offset", "9")
    assert code == 2
    assert "the input is closed; give --yes" in flat(err)
    assert flow_of(here.call("list", "-o", "json")[1])["commands"] == []
    code, out, err = here.call("skip-to", "orders", "--to-offset", "9", answer="y\n")
    assert code == 0
    assert "no process runs s->w now: not running; the next process carries it out" in err
    assert "skip-to offset 9 orders: requested" in out
    assert len(flow_of(here.call("list", "-o", "json")[1])["commands"]) == 1


def test_what_changes_nothing_is_not_asked(here: Scene) -> None:
    code, out, err = here.call("restart-from", "orders", "--latest", "--yes")
    assert code == 1
    assert "it is at offset 4, before 10: skip-to passes over what is between" in out
    assert "nothing changes, so the command was dropped" in err
    assert here.call("accept-gap", "orders", "--yes", "-o", "json")[0] == 1
    assert flow_of(here.call("list", "-o", "json")[1])["commands"] == []


def test_one_place_is_named(here: Scene) -> None:
    for words in ([], ["--earliest", "--latest"], ["--offset", "1", "--until", "2026-11-01T00:00:00Z"]):
        code, _, err = here.call("skip-to", "orders", *words)
        assert code == 2
        assert "give a single place by --earliest, --latest, --to-offset or --until" in flat(err)
    assert here.call("skip-to", "orders", "--until", "yesterday")[0] == 2


def test_the_same_id_asks_once(here: Scene) -> None:
    words = ("skip-to", "orders-1", "--latest", "--id", "x1", "--yes")
    assert here.call(*words, "-o", "json")[0] == 0
    code, out, _ = here.call(*words, "-o", "json")
    assert (code, json.loads(out)["id"]) == (0, "x1")
    assert len(flow_of(here.call("list", "-o", "json")[1])["commands"]) == 1
    code, _, err = here.call("skip-to", "orders-2", "--latest", "--id", "x1", "--yes")
    assert code == 2
    assert "the id x1 was given to another command: skip-to latest orders partition 1" in flat(err)


def test_a_process_that_runs_the_flow_and_does_not_do_it_is_named_with_its_rights(here: Scene) -> None:
    here.report()
    code, _, err = here.call("pause", "orders", "--timeout", "1")
    assert code == 3
    assert "needs READ and WRITE on topic mm2-twinlog-control.s.internal" in err


def test_a_process_that_was_killed_a_moment_ago_does_not_run_the_flow(
    here: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.report()
    monkeypatch.setattr("twinlog.ops.topics.asking.LOOK_S", 0.0)
    code, out, err = here.call("pause", "orders")
    assert code == 0
    assert "pause orders: requested" in out
    assert "no process runs s->w now: dead; the next process carries it out" in err


def test_topics_that_are_not_paused_are_not_resumed(here: Scene) -> None:
    code, out, err = here.call("resume", "orders")
    assert (code, flat(err)) == (1, "twinlog: TW-USE-04: none of these topics is paused, so the command was dropped")
    assert "resume orders" in out
    assert flow_of(here.call("list", "-o", "json")[1])["commands"] == []


def test_a_pause_whose_partitions_were_resumed_one_by_one_is_one_of_later_partitions(here: Scene) -> None:
    assert here.call("pause", "orders")[0] == 0
    pause = [line for line in here.call("list")[1].splitlines() if "paused by" in line]
    assert [line.endswith(": orders") for line in pause] == [True]
    for part in range(3):
        assert here.call("resume", "orders", "--partition", str(part))[0] == 0
    assert [line for line in here.call("list")[1].splitlines() if "paused by" in line] == pause, "partition 3 is paused"
    assert here.call("resume", "orders", "--partition", "3")[0] == 0
    (line,) = [line for line in here.call("list")[1].splitlines() if "paused by" in line]
    assert line.endswith(": orders; only for later partitions: `twinlog topics resume FILE orders` ends that")
    assert here.call("resume", "orders")[0] == 0
    assert "paused by" not in here.call("list")[1]


def test_a_flow_is_named_where_the_file_has_several(here: Scene) -> None:
    code, _, err = here.call("pause", "orders", more="w->s.enabled = true")
    assert code == 2
    assert "FILE has several flows; add --flow s:w or --flow w:s" in flat(err)
    assert here.call("pause", "orders", "--flow", "s->w", more="w->s.enabled = true")[0] == 0
    assert here.call("pause", "orders", "--flow", "s->x")[0] == 2


def test_topics_are_paused_while_the_source_is_away(here: Scene) -> None:
    here.source.stop(1)
    code, _, err = here.call("pause", "orders")
    assert code == 0
    assert "the source is silent, so the topics are unchecked" in err
    code, _, err = here.call("pause", "orders-3")
    assert code == 2
    assert "may be a topic or a partition, and the source is silent" in flat(err)
    assert here.call("skip-to", "orders", "--latest", "--yes")[0] == 3
    assert here.call("list")[0] == 3

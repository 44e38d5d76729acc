"""`twinlog plan` and `twinlog diff` refuse what cannot be meant, and print a plan as lines; no cluster is contacted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from twinlog.cli.main import app
from twinlog.model.types import Alias, GroupId, TopicName
from twinlog.ops.diff.differences import ClusterDifference, diff_lines
from twinlog.ops.plan.flow_plan import (
    MOST,
    ExcludedTopic,
    FlowPlan,
    GroupPlan,
    NewRemoteTopic,
    PartitionGrowth,
    Problem,
    SettingChange,
    TopicCopyPlan,
    plan_lines,
)

FLOWS = "clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = 127.0.0.1:1\na->b.enabled = true\n"
WEST = Alias("west")


def call(folder: Path, command: str, *more: str, text: str = FLOWS) -> tuple[int, str]:
    file = folder / "mm2.properties"
    file.write_text(text, "utf-8")
    done = CliRunner().invoke(app, [command, str(file), *more])
    return done.exit_code, done.output


@pytest.mark.parametrize("command", ["plan", "verify"])
def test_a_silent_cluster_is_named_while_a_command_waits_for_it(tmp_path: Path, command: str) -> None:
    code, printed = call(tmp_path, command, "--timeout", "3")
    assert code == 3
    assert "twinlog: waiting: cluster " in printed
    assert "has not answered for 2 s" in printed


def test_a_wrong_file_or_command_line_ends_with_2(tmp_path: Path) -> None:
    code, printed = call(tmp_path, "plan", text=FLOWS + "tasks.max = none\n")
    assert (code, "tasks.max" in printed) == (2, True)
    code, printed = call(tmp_path, "plan", "--flow", "b->c")
    assert (code, "there is no flow b->c; the file has a:b" in " ".join(printed.split())) == (2, True)
    code, printed = call(tmp_path, "plan", "--rate", "fast")
    assert (code, "is an unknown rate" in printed) == (2, True)
    code, printed = call(tmp_path, "diff", "--from", "a", "--to", "c")
    assert code == 2
    assert "alias: 'c' is invalid; write two clusters of flows of the file: a, b" in printed
    code, printed = call(tmp_path, "diff", "none.properties", text="bootstrap.servers = a:1\n")
    assert (code, "none.properties: error: No such file" in printed) == (2, True)
    code, printed = call(tmp_path, "diff", "a")
    assert (code, "two of its clusters are compared" in " ".join(printed.split())) == (2, True)
    code, printed = call(tmp_path, "diff", "--from", "a", "--to", "a")
    assert (code, "a twice" in printed) == (2, True)
    code, printed = call(tmp_path, "diff", text="bootstrap.servers = a:1\n")
    assert (code, "the client properties of the second cluster" in " ".join(printed.split())) == (2, True)
    code, printed = call(tmp_path, "diff", "--from", "a")
    assert (code, "give both options, or leave both out" in " ".join(printed.split())) == (2, True)
    for words in (("a", "b", "--to", "a"), ("other.properties", "--from", "a", "--to", "b")):
        code, printed = call(tmp_path, "diff", *words)
        assert (code, "leave OTHER out" in " ".join(printed.split())) == (2, True)
    three = f"{FLOWS}c.bootstrap.servers = 127.0.0.1:1\na->c.enabled = true\n".replace("a, b", "a, b, c")
    code, printed = call(tmp_path, "diff", text=three)
    assert (code, "FILE has the clusters a, b, c: choose two" in " ".join(printed.split())) == (2, True)


def test_a_client_file_lacks_its_brokers(tmp_path: Path) -> None:
    other = tmp_path / "other.properties"
    other.write_text("bootstrap.servers = b:1\nno.such.key = 1\n", "utf-8")
    code, printed = call(tmp_path, "diff", str(other), text="security.protocol = PLAINTEXT\n")
    assert code == 2
    assert "bootstrap.servers: missing; write the brokers of this cluster, for example" in printed


def test_a_cluster_that_does_not_answer_ends_without_a_trace(tmp_path: Path) -> None:
    clusters = ("--from", "a", "--to", "b")
    # The last is the form of earlier versions.
    for command, more in (("plan", ()), ("diff", ()), ("diff", clusters), ("diff", ("a", "b"))):
        ended, printed = call(tmp_path, command, *more, "--timeout", "0.3")
        assert (ended, "127.0.0.1:1: connection refused" in printed) == (3, True), printed
        assert "Traceback" not in printed


def test_a_plan_has_a_section_for_all_that_would_be_done() -> None:
    plan = FlowPlan(
        "east->west",
        Alias("east"),
        WEST,
        rate=1000.0,
        create=(
            NewRemoteTopic(WEST, TopicName("east.t"), TopicName("t"), 3, -1, {"retention.ms": "1"}),
            NewRemoteTopic(WEST, TopicName("own"), None, 1, 2, {"segment.ms": "1"}),
        ),
        grow=(PartitionGrowth(TopicName("east.u"), 1, 2),),
        settings=(SettingChange(WEST, TopicName("east.u"), "flush.ms", None, "5"),),
        groups=(
            GroupPlan(GroupId("g"), 2, "moves"),
            GroupPlan(GroupId("h"), 1, "in-step"),
            GroupPlan(GroupId("i"), 0, "stays", "why"),
        ),
        copy=(
            TopicCopyPlan(TopicName("t"), TopicName("east.t"), 3, 5000, 90_000),
            TopicCopyPlan(TopicName("u"), TopicName("east.u"), 1, 1, 0, compacted=True),
        ),
        left_out=(
            ExcludedTopic(TopicName("x"), "it is an internal topic"),
            ExcludedTopic(TopicName("y"), "it is an internal topic"),
        ),
        problems=(Problem("disk", "full"),),
        notes=("a note",),
    )
    assert plan_lines(plan) == [
        (
            "east->west: a run would create 2 topics, add partitions to 1 topic, change 1 setting, move 1 group, "
            "copy 5,001 records, 90.0 kB, in about 1 min 30 s at 1.0 kB/s (--rate); 1 problem"
        ),
        "  a run would fail, or skip a part of it",
        "    ! TW-PLAN-05: disk: full",
        "  topics to create on west",
        "    + east.t: 3 partitions, replicas: the broker's default, retention.ms=1",
        "  topics to create for twinlog itself",
        "    + west: own: 1 partition, replicas: 2",
        "  partitions to add on west",
        "    ~ east.u: 1 -> 2 partitions",
        "  settings to change",
        "    ~ west: east.u: flush.ms default -> 5",
        "  consumer groups",
        "    > g: offsets of 2 partitions are committed on west once they are copied",
        "    = h: offsets of 1 partition are in step",
        "    - i: stays: why",
        "  to copy",
        "    > t -> east.t: 5,000 records, 90.0 kB in 3 partitions",
        "    > u -> east.u: 1 record, 0 B in 1 partition, compacted: fewer records than offsets",
        "  not copied",
        "    - it is an internal topic: x, y",
        "  to know",
        "    * a note",
    ]
    assert plan.as_json()["done"] is False
    assert plan.as_json()["problems"] == [{"kind": "disk", "id": "TW-PLAN-05", "text": "full"}]


def test_what_is_done_says_so_and_long_lists_are_cut() -> None:
    done = FlowPlan("east->west", Alias("east"), WEST, 1.0, groups=(GroupPlan(GroupId("h"), 1, "in-step"),))
    assert plan_lines(done)[0] == "east->west: nothing is left to do"
    unknown = replace(done, problems=(Problem("unread", "no broker leads t-0"),))
    assert plan_lines(unknown)[0] == "east->west: a run would fail, or skip a part of it; 1 problem"
    assert not unknown.done
    many = tuple(PartitionGrowth(TopicName(f"t{number}"), 1, 2) for number in range(MOST + 5))
    long = FlowPlan("east->west", Alias("east"), WEST, 1.0, grow=many)
    assert plan_lines(long)[-1] == "    ... and 5 more (--all, -o json)"
    assert len(plan_lines(long, everything=True)) == 2 + MOST + 5


def test_unknown_sizes_give_no_time() -> None:
    copy = (TopicCopyPlan(TopicName("t"), TopicName("east.t"), 1, 7, None),)
    (line, *_) = plan_lines(FlowPlan("east->west", Alias("east"), WEST, 1.0, copy=copy))
    assert line == "east->west: a run would copy 7 records, bytes unknown"


def test_differences_as_lines() -> None:
    found = [
        ClusterDifference("topic", "t / east.t", "3 partitions", None),
        ClusterDifference("topic", "u", None, "1 partition"),
        ClusterDifference("partitions", "v", "1", "2"),
        ClusterDifference("setting", "v", "1", "default", "retention.ms"),
        ClusterDifference("acl", "ALLOW READ", None, "yes"),
        ClusterDifference("lag", "g", "3 behind", None, "v-0"),
    ]
    assert diff_lines("a", "b", "by name", found) == [
        "a | b: 6 differences (by name)",
        "  topics",
        "    - t / east.t: 3 partitions on a, none on b",
        "    + u: none on a, 1 partition on b",
        "    ~ v: 1 | 2 partitions",
        "  settings",
        "    ~ v: retention.ms: 1 | default",
        "  ACLs",
        "    + ALLOW READ: only on b",
        "  consumer groups",
        "    - g: v-0: 3 behind on a, none on b",
    ]
    assert diff_lines("a", "b", "by name", []) == ["a and b: no difference (by name)"]


def test_flows_that_only_write_heartbeats_can_be_planned_too(tmp_path: Path) -> None:
    """A run creates their topic, and needs the right to."""
    code, printed = call(tmp_path, "plan", "--flow", "b->c")
    assert (code, "the file has a:b, b:a" in " ".join(printed.split())) == (2, True)

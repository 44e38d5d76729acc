"""What `twinlog verify` prints, and what moments it understands."""

from __future__ import annotations

from dataclasses import replace

import pytest
import typer

from twinlog.console.options import moment_ms
from twinlog.ops.verify.model import RecordDifference, UncomparedRange, Verdict
from twinlog.ops.verify.recheck import ChangedRange, RecheckVerdict, SideFindings
from twinlog.ops.verify.sections import NOT_YET
from twinlog.ops.verify.verify_lines import recheck_lines, verdict_lines


def verdict(partition: int, *, topic: str = "t", equal: bool | None = True) -> Verdict:
    return Verdict("a->b", topic, f"a.{topic}", partition, records=10, bytes=900, equal=equal)


def test_topics_differences_and_ranges_that_were_left_out() -> None:
    changed, lacking, partly = verdict(1, equal=False), verdict(0, topic="u", equal=None), verdict(0, topic="v")
    changed.differences, changed.first = 2, RecordDifference("order", 7, 9, "crossed")
    lacking.problem = "cluster b: u-0 has no leader"
    partly.left = [UncomparedRange("target", 0, 5, "gone")]
    lines = verdict_lines([verdict(0), changed, lacking, partly], 2.0, everything=False)
    assert [line.split()[-1] for line in lines[1:4]] == ["different", "compared", "compared"]
    assert lines[3].endswith("equal where compared")
    assert "TW-VERIFY-01: t-1: 2 different; the first (order) at source offset 7, target offset 9: crossed" in lines
    assert "TW-VERIFY-02: v-0: not compared: target offsets 0 to 4: gone" in lines
    assert "TW-VERIFY-03: u-0 was not compared: cluster b: u-0 has no leader" in lines
    assert lines[-1] == (
        "differences: 2, in 1 of 4 partitions; not compared: 1 of 4 partitions; "
        "40 records, 3,600 bytes are equal; 2 s, 0 MB/s"
    )
    fine = verdict_lines([verdict(0), partly], 2.0, everything=False)
    assert fine[-1] == "20 records, 1,800 bytes are equal in 2 partitions; 2 s, 0 MB/s"
    alone = verdict_lines([verdict(0)], 2.0, {"c->b": "no broker answers"}, everything=False)
    assert alone[-1] == "flows not compared: 1; 10 records, 900 bytes are equal; 2 s, 0 MB/s"
    many = [verdict(number) for number in range(20)]
    for one in many:
        one.left = [UncomparedRange("source", 0, 5, "gone")]
    assert "and 15 more ranges that were not compared; --all prints them" in verdict_lines(many, 2.0, everything=False)
    assert len(verdict_lines(many, 2.0, everything=True)) == 23
    for one in many:
        one.problem = "cluster b: it has no leader"
    assert "and 15 more partitions that were not compared; --all prints them" in verdict_lines(
        many, 2, everything=False
    )


def test_what_counts_is_not_hidden_behind_what_does_not() -> None:
    """Of a flow that runs each partition has records that are not copied yet; foreign ones may be in each, too."""
    many = [verdict(number) for number in range(20)]
    for one in many:
        one.foreign, one.left = 3, [UncomparedRange("source", 5, 9, NOT_YET)]
    many[17].left.append(UncomparedRange("source", 0, 5, "gone"))
    many[18].equal, many[18].differences, many[18].first = False, 1, RecordDifference("value", 7, 9)
    lines = verdict_lines(many, 2.0, everything=False)
    assert (
        "TW-VERIFY-01: t-18: 1 different, 3 of them of somebody else; the first (value) at source offset 7, "
        "target offset 9" in lines
    )
    assert "TW-VERIFY-02: t-17: not compared: source offsets 0 to 4: gone" in lines


def test_flows_are_named_where_there_are_several() -> None:
    other = verdict(0, equal=False)
    other.flow, other.differences, other.first = "c->b", 1, RecordDifference("value", 7, 9)
    other.remote_topic = "a.t"
    lines = verdict_lines([verdict(0), other], 2.0, everything=False)
    assert [line.split()[:4] for line in lines[1:3]] == [["a->b", "t", "a.t", "1"], ["c->b", "t", "a.t", "1"]]
    assert "TW-VERIFY-01: c->b t-0: 1 different; the first (value) at source offset 7, target offset 9" in lines


def test_moments() -> None:
    assert moment_ms(None, "--until") is None
    assert moment_ms("1700000000000", "--until") == 1_700_000_000_000
    assert moment_ms("@1700000000000", "--until") == 1_700_000_000_000
    assert moment_ms("2023-11-14T22:13:20Z", "--until") == 1_700_000_000_000
    assert moment_ms("2023-11-14T22:13:20", "--until") == 1_700_000_000_000
    assert moment_ms("2023-11-14T23:13:20.5+01:00", "--until") == 1_700_000_000_500
    with pytest.raises(typer.BadParameter, match="is an unknown moment"):
        moment_ms("yesterday", "--until")
    with pytest.raises(typer.BadParameter, match="is an unknown moment; write @ and ms"):
        moment_ms("yesterday", "--from", "@ and ms")
    # Brokers take -1 and -2 for the ends of a log.
    for text in ("1969-12-31T23:59:59.999Z", "9" * 20):
        with pytest.raises(typer.BadParameter, match="is before 1970, or too far away"):
            moment_ms(text, "--until")


def test_where_there_was_no_record_nothing_is_called_equal() -> None:
    """Such as before a moment that is too early, or of a log that compaction has emptied on both sides."""
    empty = replace(verdict(0), records=0, bytes=0)
    assert verdict_lines([empty], 2.0, everything=False)[1].endswith("  no records")
    assert verdict_lines([empty, verdict(1)], 2.0, everything=False)[1].endswith("  equal")


def test_seconds_since_1970_are_taken_for_milliseconds_and_shown_as_what_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert moment_ms("1795449000", "--until") == 1_795_449_000
    told = "TW-USE-05: --until 1795449000 is 1970-01-21T18:44:09Z: numbers are milliseconds since 1970\n"
    assert capsys.readouterr().err == told
    assert moment_ms("1795449000000", "--until") == 1_795_449_000_000
    assert moment_ms("1970-01-21T18:44:09Z", "--until") == 1_795_449_000
    assert capsys.readouterr().err == ""


def rechecked(partition: int, *sides: SideFindings, flow: str = "a->b") -> RecheckVerdict:
    return RecheckVerdict(flow, "t", "a.t", partition, 100, list(sides))


def test_differences_from_a_statement_and_losses_since() -> None:
    changed = SideFindings("target", equal=40, different=2, first=ChangedRange(50, 60, 10, 9), newer=3)
    trimmed = SideFindings("source", equal=70, trimmed=25, compacted=2, unproved=3)
    found = [
        rechecked(0, SideFindings("source", equal=100), SideFindings("target", equal=100, newer=1)),
        rechecked(1, trimmed, changed),
        rechecked(2, SideFindings("source", problem="cluster a: t-2 is gone, or hidden from this login")),
    ]
    lines = recheck_lines(found, everything=False)
    assert lines[0].split() == ["TOPIC", "COPY", "PARTITIONS", "STATED", "SOURCE", "TARGET", "GONE", "NEWER"]
    assert lines[1].split() == ["t", "a.t", "3", "300", "170", "140", "27", "4", "different"]
    assert lines[2:] == [
        (
            "TW-VERIFY-05: t-1: target differs from the statement in 2 ranges, first at offsets 50 to 59: 9 records, "
            "stated 10"
        ),
        (
            "TW-VERIFY-06: t-1: source lacks 27 records of the statement, deleted by retention and compaction; not "
            "compared in these ranges: 3 records"
        ),
        "TW-VERIFY-03: t-2 was not compared: cluster a: t-2 is gone, or hidden from this login",
        (
            "differences: 2 ranges, in 1 of 3 partitions; not compared: 1 of 3 partitions; gone: 27 records; 300 "
            "stated records in 3 partitions; equal on the source: 170; equal on the target: 140"
        ),
    ]


def test_a_statement_that_still_holds() -> None:
    target = SideFindings("target", equal=100)
    assert recheck_lines([rechecked(0, target)], everything=False) == [
        "TOPIC  COPY  PARTITIONS  STATED  SOURCE  TARGET  GONE  NEWER",
        "t      a.t            1     100       -     100     0      0  equal",
        "100 stated records in 1 partition; equal on the target: 100",
    ]
    gone = SideFindings("target", equal=10, trimmed=90)
    lines = recheck_lines(
        [rechecked(0, target), rechecked(0, gone, flow="c->b")], {"d->b": "no broker answers"}, everything=False
    )
    assert [line.split()[-1] for line in lines[1:3]] == ["equal", "compared"]
    assert "TW-VERIFY-06: c->b t-0: target lacks 90 records of the statement, deleted by retention" in lines
    assert "TW-VERIFY-03: flow d->b was not compared: no broker answers" in lines
    assert lines[-1].startswith("flows not compared: 1; gone: 90 records; 200 stated records in 2 partitions")


@pytest.mark.parametrize(
    ("sides", "equal"),
    [
        ((SideFindings("source", equal=100), SideFindings("target", equal=100)), True),
        # A side that retention has emptied leaves the other side.
        ((SideFindings("source", trimmed=100), SideFindings("target", equal=100)), True),
        ((SideFindings("source", trimmed=100), SideFindings("target", trimmed=100)), None),
        ((SideFindings("source", problem="silent"), SideFindings("target", equal=100)), None),
        ((SideFindings("source", problem="silent"), SideFindings("target", equal=90, different=1)), False),
    ],
)
def test_the_state_of_a_partition_of_a_statement(sides: tuple[SideFindings, ...], equal: bool | None) -> None:
    assert rechecked(0, *sides).equal is equal


def test_identical_offsets_are_named() -> None:
    lines = verdict_lines(
        [verdict(0), verdict(0, topic="u")], 2.0, everything=False, identical=lambda _flow, topic: topic == "u"
    )
    assert [line.split("0  ")[-1] for line in lines[1:3]] == ["equal", "equal, identical offsets"]

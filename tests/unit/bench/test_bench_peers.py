"""The mirrors beside twinlog and MirrorMaker 2: how they are started, checked, compared and shown."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import _systems
from bench.copies import all_systems, copying
from bench.copies.all_systems import AllSystems, rotated
from bench.copies.copying import Kept
from bench.copies.fidelity import PARTITIONS, RECORDS, _record, judge
from bench.copies.limit import LimitFigures
from bench.items.catalogue import COPIES, QUERIES, START_S, STARTS, TRANSFORMS
from bench.items.goals import SHARE, Goal, Wanted
from bench.items.kinds import CopyItem
from bench.peers import librdkafka_loop
from bench.peers.commands import PeerJob, PeerName, franz_program, franz_version, peer_command
from bench.reports import report, results
from bench.reports.front import _headlines
from bench.reports.notes import notes
from bench.reports.results import Row, Verdict, compare_all
from bench.stage.load import Shape
from bench.systems import TITLES, Setup, SystemName
from harness.checks.requests import Traffic
from harness.consume import Record
from harness.errors import HarnessError


def job(home: Path) -> PeerJob:
    return PeerJob("127.0.0.1:1", "127.0.0.1:2", "orders", "f.orders", "zstd", "group-1", home)


# -- the systems


def test_remote_topics_differ_but_for_the_system_that_cannot_rename() -> None:
    remotes = {system: Setup(system, "orders").remote for system in TITLES}
    assert remotes["mm1"] == "orders"
    assert len(set(remotes.values())) == len(TITLES)
    assert [system for system in TITLES if Setup(system, "orders").makes_topics] == ["mm2", "twinlog"]


def test_both_mirrors_make_as_many_replicas_as_the_clusters_have() -> None:
    for system in ("mm2", "twinlog"):
        text = Setup(system, "orders", copies=3).properties("127.0.0.1:1", "127.0.0.1:2")
        assert text.count("replication.factor = 3\n") == 4
        assert "replication.factor = 1" not in text


def test_mirror_maker_1_gets_both_clusters_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kafka" / "3.9.1-broker").mkdir(parents=True)
    (tmp_path / "kafka" / "3.9.1-broker" / "kafka_2.13-3.9.1.jar").touch()
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path))
    command = peer_command("mm1", job(tmp_path))
    assert command[command.index("kafka.tools.MirrorMaker") :] == [
        "kafka.tools.MirrorMaker",
        *("--consumer.config", str(tmp_path / "consumer.properties")),
        *("--producer.config", str(tmp_path / "producer.properties")),
        *("--num.streams", "4", "--include", "orders"),
    ]
    consumer = (tmp_path / "consumer.properties").read_text(encoding="utf-8").splitlines()
    producer = (tmp_path / "producer.properties").read_text(encoding="utf-8").splitlines()
    assert {"bootstrap.servers=127.0.0.1:1", "group.id=group-1", "auto.offset.reset=earliest"} <= set(consumer)
    assert {"bootstrap.servers=127.0.0.1:2", "compression.type=zstd"} <= set(producer)


@pytest.mark.parametrize("peer", ["librdkafka", "franz"])
def test_loops_get_clusters_topics_group_and_codec(
    peer: PeerName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.peers.commands.franz_program", lambda: tmp_path / "franz")
    assert peer_command(peer, job(tmp_path))[-6:] == [
        *("127.0.0.1:1", "127.0.0.1:2", "orders", "f.orders", "group-1", "zstd")
    ]


def test_the_loop_on_librdkafka_is_idempotent_and_commits_only_itself() -> None:
    assert librdkafka_loop.consumer_settings("a:1", "g")["enable.auto.commit"] is False
    settings = librdkafka_loop.producer_settings("b:1", "lz4")
    assert (settings["enable.idempotence"], settings["compression.type"]) == (True, "lz4")


def test_without_go_the_reason_is_short_enough_for_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HarnessError) as failed:
        franz_program()
    assert report._short(str(failed.value)) == "go is missing"


def test_a_program_that_go_cannot_build_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n", encoding="ascii")
    go.chmod(0o755)
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(HarnessError, match="no such module"):
        franz_program()
    go.write_text('#!/bin/sh\necho built > "$3"\n', encoding="ascii")
    program = franz_program()
    assert program.read_text(encoding="ascii") == "built\n"
    go.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert franz_program() == program, "it is built once"


def test_notes_name_the_versions_of_the_peers() -> None:
    text = "\n".join(notes(300, 1, 3))
    assert f"franz-go {franz_version()} " in text
    assert "3 brokers" in text
    assert franz_version().startswith("v1.")


def test_systems_are_named_with_commas_and_come_in_the_order_of_their_columns() -> None:
    assert _systems("twinlog,mm2") == ("mm2", "twinlog")
    with pytest.raises(argparse.ArgumentTypeError, match="nothing"):
        _systems("mm2,nothing")


def test_each_system_begins_a_round() -> None:
    systems: list[SystemName] = ["mm2", "franz", "twinlog"]
    orders = [rotated(systems, number) for number in range(4)]
    assert [order[0] for order in orders] == ["mm2", "franz", "twinlog", "mm2"]
    assert orders[1] == ["franz", "twinlog", "mm2"]


# -- a system that fails


class Stubs:
    """The work of two clusters; the systems in `fail` fail in that way, one of them in its second round."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        self.cleared = 0
        monkeypatch.setattr(all_systems, "prepare_peer", self.prepare)
        monkeypatch.setattr(all_systems, "check_system", self.check)
        monkeypatch.setattr(all_systems, "measure_copy", self.measure)
        monkeypatch.setattr(all_systems, "delete_topics_of_users", self.clear)
        monkeypatch.setattr(all_systems, "fill_loud", lambda *_: Shape(1, 1.0, 1.0))
        monkeypatch.setattr(all_systems, "measure_limit", lambda *_: LimitFigures(1_000.0, 1.0, 1.0, 1.0))
        for name in ("fill_checked", "warm", "delete_topic"):
            monkeypatch.setattr(all_systems, name, lambda *_: None)

    def prepare(self, system: str) -> None:
        if system == "franz":
            raise HarnessError("go is missing")

    def check(self, setup: Setup, *_: object) -> Kept:
        return Kept(timestamps=setup.system != "spark")

    def measure(self, item: CopyItem, setup: Setup, *places: object, kept: Kept) -> copying.CopyFigures:
        assert kept.timestamps == (setup.system != "spark")
        assert setup.copies == 3
        self.order.append(setup.system)
        if setup.system == "mm1":
            raise HarnessError(f"{places[2]}/mm1.log ends")
        if self.order.count("mm2") == 2 and setup.system == "mm2":
            raise TimeoutError("too slow")
        return copying.CopyFigures(100.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, {})

    def clear(self, cluster: object) -> None:
        self.cleared += 1


def test_a_run_goes_on_without_the_systems_that_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stubs = Stubs(monkeypatch)
    cluster: Any = None
    everybody = AllSystems(("mm2", "mm1", "spark", "franz", "twinlog"), 3, 3, cluster, cluster, tmp_path)
    checks = everybody.check()
    assert list(checks) == list(everybody.systems)
    assert (checks["franz"], checks["spark"]) == ("go is missing", asdict(Kept(timestamps=False)))
    assert stubs.cleared == 1

    found: Any = everybody.copy(COPIES[0], 0)
    assert stubs.order == ["mm2", "mm1", "spark", "twinlog", "spark", "twinlog", "mm2", "spark", "twinlog"]
    assert found["failed"] == {"franz": "go is missing", "mm1": "mm1.log ends", "mm2": "too slow"}
    assert stubs.cleared == 3, "what a failed copy left is removed"
    speed = found["rows"][0]
    assert speed["values"] == {"spark": 100.0, "twinlog": 100.0}
    assert {verdict["met"] for verdict in speed["verdicts"]} == {None}
    assert len(found["runs"]["mm2"]) == 1, "a figure of the round before is kept"
    stubs.order.clear()
    everybody.copy(COPIES[1], 1)
    assert stubs.order[:3] == ["mm1", "spark", "twinlog"], "what failed one item copies the next"


def test_a_run_without_twinlog_has_no_goals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Stubs(monkeypatch)
    cluster: Any = None
    everybody = AllSystems(("mm2", "spark"), 3, 1, cluster, cluster, tmp_path)
    everybody.check()
    found: Any = everybody.copy(COPIES[0], 0)
    assert found["goals"] == []
    assert not any(row["verdicts"] for row in found["rows"])


# -- the check


@pytest.fixture(scope="module")
def source() -> list[Record]:
    return [
        Record("t", partition, number, new.key, new.value, new.headers, new.timestamp or 0, "create")
        for partition in range(PARTITIONS)
        for number in range(0, RECORDS, 37)
        for new in [_record(partition, number)]
    ]


def test_a_true_copy_has_every_quality(source: list[Record]) -> None:
    assert judge(source, source) == Kept()


def _swapped(source: list[Record]) -> list[Record]:
    return [source[1], source[0], *source[2:]]


def _spread(source: list[Record]) -> list[Record]:
    return [replace(record, partition=(record.partition + at) % PARTITIONS) for at, record in enumerate(source)]


WRONG: Mapping[str, tuple[Callable[[list[Record]], list[Record]], Kept]] = {
    "lost": (lambda source: source[1:], Kept(complete=False)),
    "doubled": (lambda source: [source[0], *source], Kept(complete=False, order=False)),
    "unknown": (lambda source: [*source, replace(source[-1], key=b"x", value=b"x")], Kept(complete=False)),
    "key": (
        lambda source: [replace(record, key=b"k" if record.value else record.key) for record in source],
        Kept(complete=False),
    ),
    "empty for none": (
        lambda source: [replace(record, value=record.value or b"") for record in source],
        Kept(complete=False),
    ),
    "order": (_swapped, Kept(order=False)),
    "moved whole": (
        lambda source: [replace(record, partition=3 - record.partition) for record in source],
        Kept(partition=False),
    ),
    "spread": (_spread, Kept(order=False, partition=False)),
    "timestamp": (lambda source: [replace(record, timestamp=7) for record in source], Kept(timestamps=False)),
    "time of append": (
        lambda source: [replace(record, timestamp_type="append") for record in source],
        Kept(timestamps=False),
    ),
    "headers": (lambda source: [replace(record, headers=()) for record in source], Kept(headers=False)),
    "last header": (
        lambda source: [replace(record, headers=tuple(dict(record.headers).items())) for record in source],
        Kept(headers=False),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_copy_lacks_is_named(name: str, source: list[Record]) -> None:
    change, kept = WRONG[name]
    assert judge(source, change(source)) == kept


def test_checked_records_are_unique_and_have_all_kinds_of_values() -> None:
    made = [_record(partition, number) for partition in range(PARTITIONS) for number in range(RECORDS)]
    assert len({record.value or record.key for record in made}) == len(made)
    assert {record.value for record in made} >= {None, b""}
    assert {record.key is None for record in made} == {True, False}
    assert {bool(record.headers) for record in made} == {True, False}


# -- requests


def test_requests_are_those_of_the_run_with_the_records_in_each(monkeypatch: pytest.MonkeyPatch) -> None:
    after = Traffic(Counter(Produce=14, FetchConsumer=100), 5_000_000)
    monkeypatch.setattr(copying, "traffic", lambda cluster: after)
    cluster: Any = None
    assert copying._requests("Produce", cluster, Traffic(Counter(Produce=10), 1_000_000)) == (4, 1_000)
    assert copying._requests("Produce", cluster, None) == (None, None), "the brokers do not count"


# -- the comparison


def test_twinlog_is_compared_with_the_best_of_the_others_and_with_mirror_maker_2() -> None:
    systems = {
        "mm2": {"records_per_s": 100.0, "cpu_s": 10.0, "peak_pss_mb": 0.0},
        "franz": {"records_per_s": 400.0, "cpu_s": 2.0, "peak_pss_mb": 50.0},
        "twinlog": {"records_per_s": 600.0, "cpu_s": 3.0, "peak_pss_mb": 100.0},
    }
    goals = (
        Goal("records_per_s", Wanted(at_least=1.15), "franz"),
        Goal("cpu_s", Wanted(at_most=1), "franz"),
        Goal("cpu_s", Wanted(at_most=3)),
        Goal("peak_pss_mb", Wanted(at_most=0.4), "mm2"),
        Goal(SHARE, Wanted(at_least=0.9)),
    )
    rows = compare_all(systems, goals, {"records_per_s": 1_000.0})
    assert [row.figure for row in rows] == ["records_per_s", SHARE, "cpu_s", "peak_pss_mb"]
    speed, share, cpu, memory = rows
    assert (speed.best, speed.to_best, speed.to_mm2) == ("franz", 1.5, 6.0)
    assert speed.verdicts == (Verdict(">= 1.15 x franz", 1.5, met=True),)
    assert share.values == {"mm2": 0.1, "franz": 0.4, "twinlog": 0.6}
    assert share.verdicts == (Verdict(">= 0.9", None, met=False),)
    assert (cpu.best, cpu.to_best, cpu.to_mm2) == ("franz", 1.5, 0.3)
    assert [verdict.met for verdict in cpu.verdicts] == [False, True]
    assert memory.verdicts == (Verdict("<= 0.4 x mm2", None, met=None),), "no verdict where there is no figure"


def test_a_goal_is_missed_when_twinlog_failed_and_not_judged_when_its_rival_did() -> None:
    goals = (Goal("records_per_s", Wanted(at_least=1), "franz"),)
    (without_rival,) = compare_all({"twinlog": {"records_per_s": 5.0}}, goals, None)
    assert (without_rival.best, without_rival.verdicts[0].met) == (None, None)
    (without_us,) = compare_all({"franz": {"records_per_s": 5.0}}, goals, None)
    assert without_us.verdicts[0].met is False
    (without_all,) = compare_all({}, goals, {"records_per_s": 9.0})
    assert without_all == Row("records_per_s", {}, None, None, None, without_us.verdicts)


def test_copies_have_goals_against_rivals_and_their_variants_have_none() -> None:
    by_name = {item.name: {(goal.figure, goal.of): str(goal.wanted) for goal in item.goals} for item in COPIES}
    for name in ("json-1k", "plain-100", "plain-10k"):
        assert by_name[name]["records_per_s", "franz"] == ">= 1.15"
        assert by_name[name]["cpu_s", "franz"] == by_name[name]["brokers_cpu_s", "franz"] == "<= 1"
    for name in ("lz4-100", "zstd-1p", "snappy-1k", "gzip-1k"):
        assert (by_name[name]["records_per_s", "franz"], by_name[name][SHARE, None]) == (">= 1.5", ">= 0.9")
    assert by_name["single-100"]["records_per_s", "franz"] == ">= 1"
    for goals in by_name.values():
        assert goals["peak_pss_mb", "mm2"] == "<= 0.4"
    # Copies run without the bridge, which every user has: their start is no user's.
    assert {str(item.wanted["start_s"]) for item in STARTS} == {"<= 0.4"}
    assert str(START_S) == "<= 3"
    assert [item.joins_at_once for item in STARTS] == [False, True]
    assert not any(item.goals for item in (*TRANSFORMS, *QUERIES))
    figures = {field.name for field in fields(copying.CopyFigures)} | {SHARE}
    assert {goal.figure for item in COPIES for goal in item.goals} <= figures


# -- the document


@pytest.fixture
def document() -> report.Document:
    systems = {"mm2": {"records_per_s": 1_000.0}, "twinlog": {"records_per_s": 12_345.6}}
    goals = (Goal("records_per_s", Wanted(at_least=1.5), "franz"), Goal("records_per_s", Wanted(at_least=2), "mm2"))
    item = {
        "name": "json-1k",
        "title": "a title",
        "systems": ["mm2", "franz", "spark", "twinlog"],
        "failed": {"franz": "go is missing", "spark": "a reason\nthat is much too long for a column"},
        "rows": [asdict(row) for row in compare_all(systems, goals, None)],
    }
    kept = asdict(Kept(order=False))
    return {"items": [item], "checks": {"mm2": kept, "franz": "go is missing", "twinlog": asdict(Kept())}}


def _cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines() if row.startswith("|")]


def test_an_item_has_a_column_for_each_system_and_reasons_for_those_that_failed(document: report.Document) -> None:
    _, text = report.tables(document)
    head, _, speed = _cells(text)
    assert head[1:5] == ["MirrorMaker 2", "franz-go", "Spark", "twinlog"]
    assert speed[:5] == ["records/s", "1,000", "go is missing", "failed", "12,346"]
    assert speed[5:] == ["12.3 MirrorMaker 2", "12.3", ">= 1.5 x franz; >= 2 x mm2", "?; pass"]
    assert "- Spark: a reason that is much too long for a column\n" in text


def test_the_check_says_yes_or_no_for_each_system(document: report.Document) -> None:
    text, _ = report.tables(document)
    rows = {row[0]: row[1:] for row in _cells(text)}
    assert rows["kept"] == ["MirrorMaker 2", "franz-go", "twinlog"]
    assert rows["order within a partition"] == ["**no**", "?", "yes"]
    assert rows["timestamp"] == ["yes", "?", "yes"]
    assert "- franz-go: go is missing\n" in text
    assert len(report.tables(document, brief=True)) == 1, "the front page has the figures only"


def test_headlines_come_from_items_of_two_and_of_all_systems(document: report.Document) -> None:
    row = {"figure": "cpu_s_per_million", "values": {"mm2": 9.0, "twinlog": 3.0}, "to_mm2": 1 / 3}
    document["items"][0]["rows"].append(row)
    document["machine"] = {"cores": 2, "date": "2001-02-03", "kafka": "1"}
    assert _headlines(document, "x.md") is None, "the latency is missing"
    line = {"figure": "p50_ms", "mm2": 6.0, "twinlog": 3.0, "ratio": 0.5}
    document["items"].append({"name": "latency", "lines": [line]})
    text = _headlines(document, "x.md") or ""
    assert "| 1,000 | 12,346 | 12.3 × |" in text
    assert "| 9.00 | 3.00 | 0.33 × |" in text
    document["items"][-1]["lines"].append({"figure": "cpu_meanwhile_s", "mm2": 5.0, "twinlog": 10.0, "ratio": 2.0})
    document["latency_s"] = 60
    text = _headlines(document, "x.md") or ""
    assert "| CPU seconds in 60 s at 1,000 records per second | 5.0 | 10.0 | 2.0 × |" in text


def test_a_ratio_is_none_where_a_figure_is_zero_or_never_came() -> None:
    assert results._ratio(4.0, 2.0) == 2.0
    for mine, other in ((None, 1.0), (1.0, None), (1.0, 0.0), (float("inf"), 1.0)):
        assert results._ratio(mine, other) is None

"""The corpus of files as it stands: all are played, say what they are like, and hold nothing of anybody."""

from __future__ import annotations

import json
import re
from pathlib import Path

import javaproperties
import pytest

from conformance.corpus.case import FILES, Case, Copies
from conformance.corpus.cases import CASES
from conformance.corpus.command import table
from conformance.corpus.facts import KNOWN
from conformance.corpus.play import Ran, Verdict
from conformance.corpus.stock import GROUPS, STOCK, records
from conformance.corpus.systems import quick_connector, staged
from harness.checks.differences import Difference

NAMES = [case.name for case in CASES]
PLACES = re.compile(r"<(one|two|three)(-sasl|-tls|-scram)?>|<dir>")
ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|[\w-]+(\.[\w-]+)+:\d+|:9\d\d\d\b")
AT_LEAST = 50


def texts() -> list[tuple[str, str]]:
    return [(str(path.relative_to(FILES)), path.read_text("latin-1")) for path in FILES.rglob("*.*") if path.is_file()]


def test_every_file_is_played_and_every_case_has_its_file() -> None:
    there = {path.stem if path.is_file() else path.name for path in FILES.iterdir()}
    assert there == set(NAMES)
    assert len(NAMES) == len(set(NAMES)) >= AT_LEAST


@pytest.mark.parametrize(("name", "text"), texts())
def test_a_file_names_clusters_of_the_scene_and_no_host(name: str, text: str) -> None:
    lines = [line for line in PLACES.sub("", text).splitlines() if not line.startswith("#")]
    rest = "\n".join(lines).replace("http://127.0.0.1:0", "")
    assert not re.search(r"[=:]\s*<", rest), name
    assert not ADDRESS.search(rest), name
    # Passwords are those of the scene.
    assert set(re.findall(r'password=\\?["\']([^"\'\\$]+)', text)) <= {"mirrormaker1-secret"}, name


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_case_copies_what_there_is(case: Case) -> None:
    for one in case.copies:
        assert set(one.topics) <= STOCK[one.source].keys()
        assert set(one.groups) <= GROUPS[one.source].keys()
        assert not one.synced or one.groups
        assert not one.groups or any(one.ends().values())
    if case.shape == "connectors":
        assert case.connectors()
        for body in case.connectors().values():
            inner = json.loads(body)
            assert "MirrorMaker" in (inner.get("config", inner)["connector.class"]) or "Mirror" in body


def test_groups_are_to_stand_behind_the_last_record() -> None:
    copies = Copies("one", "two", "A.", ("orders", "audit.v1"), ("readers",), synced=True)
    assert copies.records() == {"A.orders": 80, "A.audit.v1": 20}
    assert copies.ends() == {"readers": {("A.orders", 0): 40, ("A.orders", 1): 40, ("A.audit.v1", 0): 20}}


def test_a_file_gets_only_what_it_does_not_say() -> None:
    text = "clusters = A, B\nreplication.factor: 3\nrefresh.topics.interval.seconds=600\n"
    said = javaproperties.loads(staged(text))
    assert (said["replication.factor"], said["refresh.topics.interval.seconds"]) == ("3", "600")
    assert said["offset-syncs.topic.replication.factor"] == "1"
    assert said["A.offset.flush.interval.ms"] == said["B.offset.flush.interval.ms"] == "1000"
    assert "replication.factor" not in quick_connector({"replication.factor": "3"})


def test_records_have_all_that_a_copy_can_lose() -> None:
    every = [record for cluster, topics in STOCK.items() for topic in topics for record in records(cluster, topic, 0)]
    assert {record.key is None for record in every} == {record.value is None for record in every} == {True, False}
    assert len({record.timestamp for record in every}) > 10
    assert any(len(record.headers) > len(dict(record.headers)) for record in every)
    assert all(record.key is not None for record in records("one", "payments", 0))
    assert records("one", "orders", 0) != records("one", "orders", 1)


def ran(refusal: str | None = None) -> Ran:
    return Ran(refusal, {"two: topic x: partitions": "1"}, 1.0, Path("log"))


@pytest.mark.parametrize(
    ("mm2", "twinlog", "found", "word", "wrong"),
    [
        (None, None, [], "equal", False),
        (None, None, [Difference("two: topic x: partitions", "1", "2")], "1 DIFFERENCES", True),
        (None, "it ended", [], "REFUSED", True),
        ("it ended", "it ended", [], "neither starts", False),
        ("it ended", None, [], "twinlog starts, too", False),
    ],
)
def test_a_verdict_is_wrong_where_twinlog_does_less(
    mm2: str | None, twinlog: str | None, found: list[Difference], word: str, wrong: bool
) -> None:
    verdict = Verdict(CASES[0], ran(mm2), ran(twinlog), found)
    assert (verdict.word, verdict.wrong) == (word, wrong)
    assert word in table([verdict])


@pytest.mark.parametrize(
    "fact",
    [
        "topic A.orders: partitions",
        "topic A.orders: retention.ms",
        "records of A.orders-0",
        "group readers: A.orders-0",
        "checkpoint in A.checkpoints.internal: readers A.orders-0",
        'position in mm2-offsets.A.internal: ["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]',
        "offset sync in mm2-offset-syncs.B.internal: orders-0",
        "topic mm2-offset-syncs.B.internal: partitions",
    ],
)
def test_no_difference_that_counts_is_always_meant(fact: str) -> None:
    assert not any(one.covers(Difference(fact, "1", None)) for one in KNOWN)

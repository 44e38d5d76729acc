"""Copies are compared with their sources by Spark: those of a flow that runs, and such with one thing planted."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_records, delete_topic
from tests.integration.flows.light_flow import LightFlow, copy_what_is_there
from tests.integration.mirror_process import flow_properties
from twinlog.spark.session import SparkEngine

NOW = 1_700_000_000_000
PLANTED = 70


def records(count: int, size: int = 200) -> list[NewRecord]:
    return [
        NewRecord(one.value, one.key, one.headers, NOW + number)
        for number, one in enumerate(numbered(count, size=size, keys=7, headers=True))
    ]


def flipped(given: list[NewRecord]) -> list[NewRecord]:
    value = bytearray(given[PLANTED].value or b"")
    value[-1] ^= 1
    changed = NewRecord(bytes(value), given[PLANTED].key, given[PLANTED].headers, given[PLANTED].timestamp)
    return [*given[:PLANTED], changed, *given[PLANTED + 1 :]]


PLANTS: dict[str, tuple[Callable[[list[NewRecord]], list[NewRecord]], int]] = {
    "value": (flipped, PLANTED),
    "missing": (lambda given: given[:PLANTED] + given[PLANTED + 1 :], PLANTED),
    "doubled": (lambda given: [*given[: PLANTED + 1], *given[PLANTED:]], PLANTED + 1),
    "order": (
        lambda given: [*given[:PLANTED], given[PLANTED + 1], given[PLANTED], *given[PLANTED + 2 :]],
        PLANTED,
    ),
}


def twinlog(*words: str | Path) -> tuple[int, str, str]:
    """A command: its exit code, and what it writes to both outputs."""
    command = [sys.executable, "-m", "twinlog", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    return done.returncode, done.stdout, done.stderr


def rows(engine: SparkEngine, file: Path, **options: Any) -> dict[tuple[str, int], Any]:
    reader = engine._running.read.format("twinlog-verify").option("twinlog.config", str(file))
    return {(row["topic"], row["partition"]): row for row in reader.options(**options).load().collect()}


def test_a_flow_that_runs_is_equal_to_what_is_planted_in_it(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = clusters
    prefix = new_name("v")
    whole, small, dated, aborted = (f"{prefix}-{kind}" for kind in ("whole", "small", "dated", "aborted"))
    create_topic(source, whole, 2)
    create_topic(source, small)
    create_topic(source, dated, config={"message.timestamp.type": "LogAppendTime"})
    create_topic(source, aborted)
    produce(source, whole, records(2_000, 1_000), codec="zstd")
    produce(source, whole, records(500), partition=1, per_batch=100)
    produce(source, small, records(200), per_batch=1)
    produce(source, dated, records(300), codec="gzip")
    for number in range(3):
        produce(source, aborted, numbered(20), transactional_id=f"{prefix}-x", abort=number == 1)
    settings = {"topics": f"{prefix}.*", "consumer.isolation.level": "read_committed"}
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = a, b\n" + flow_properties("a->b", source, target, settings))
    flow = LightFlow(file, "a->b")
    engine = SparkEngine("local[2]", {})
    try:
        flow.wait_until_caught_up()
        engine.start()
        found = rows(engine, file, flow="a->b")
        assert {key: (row["equal"], row["records"], row["differences"]) for key, row in found.items()} == {
            (whole, 0): (True, 2_000, 0),
            (whole, 1): (True, 500, 0),
            (small, 0): (True, 200, 0),
            (dated, 0): (True, 300, 0),
            (aborted, 0): (True, 40, 0),
        }
        assert all(row["source_digest"] == row["target_digest"] and not row["not_compared"] for row in found.values())
        assert found[whole, 0]["source_end"] == found[whole, 0]["target_end"] == 2_000
        # Somebody else writes to a remote topic, one of the sources forgets, and the flow goes on.
        produce(target, f"a.{small}", [NewRecord(b"not of the flow")])
        delete_records(source, whole, 300)
        produce(source, small, records(50))
        flow.wait_until_caught_up()
        flow.stop()
        found = rows(engine, file, topics=f"{whole}, {small}")
        assert set(found) == {(whole, 0), (whole, 1), (small, 0)}
        foreign = found[small, 0]
        assert (foreign["equal"], foreign["foreign"], foreign["records"]) == (False, 1, 250)
        assert foreign["first_difference"].asDict() == {
            "what": "extra",
            "source_offset": 200,
            "target_offset": 200,
            "text": "",
        }
        retained = found[whole, 0]
        assert (retained["equal"], retained["records"]) == (True, 1_700)
        assert [(one.side, one.start, one.end) for one in retained["not_compared"]] == [("target", 0, 300)]
        tolerated = rows(engine, file, topics=small, ignoreForeign=True, everyRecord=True)
        assert tolerated[small, 0]["equal"] is True
    finally:
        flow.kill()
        engine.stop(60)


def test_the_command_finds_what_is_planted_without_a_flow(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = clusters
    prefix = new_name("p")
    for what, (plant, _) in {**PLANTS, "equal": (list, 0)}.items():
        topic = create_topic(source, f"{prefix}-{what}")
        copy = create_topic(target, f"p.{topic}")
        produce(source, topic, records(200), per_batch=10)
        produce(target, copy, plant(records(200)), per_batch=100)
    create_topic(source, f"{prefix}-lacking")
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = p, q\n" + flow_properties("p->q", source, target, {"topics": f"{prefix}.*"}))

    def verify(*options: str) -> tuple[int, str, str]:
        return twinlog("verify", file, *options)

    code, out, err = verify("-o", "json")
    assert code == 1, err
    answer = json.loads(out)
    assert answer["equal"] is False
    found = {part["topic"].removeprefix(f"{prefix}-"): part for part in answer["partitions"]}
    assert found["equal"]["equal"] is True
    assert found["equal"]["records"] == 200
    assert found["lacking"]["problem"] == f"cluster q has no topic p.{prefix}-lacking, or hides it"
    for what, (_, offset) in PLANTS.items():
        first = found[what]["first_difference"]
        assert (found[what]["equal"], first["what"], first["source_offset"]) == (False, what, offset)
        assert found[what]["differences"] == (2 if what == "order" else 1)
    # Spark need not start where there is nothing to read.
    code, out, _ = verify("--topic", f"{prefix}-lacking")
    assert code == 1
    assert "was not compared: cluster q has no topic" in out
    code, _, err = verify("--topics", f"{prefix}-nowhere")
    nowhere = f"flow p->q mirrors no topic {prefix}-nowhere of p"
    assert (code, err) == (2, f"twinlog: TW-USE-01: {nowhere}: see `twinlog plan`\n")


@pytest.mark.scenario
@pytest.mark.skipif(shutil.which("openssl") is None, reason="the system has no openssl")
def test_a_signed_statement_holds_until_a_record_of_its_ranges_changes(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = clusters
    topic = create_topic(source, new_name("s"), 2)
    copy = f"a.{topic}"
    for partition in (0, 1):
        produce(source, topic, records(200), partition=partition, per_batch=10)
    file, path, key, public = (
        tmp_path / name for name in ("mm2.properties", "proof.json", "proof.key", "proof.key.pub.pem")
    )
    file.write_text("clusters = a, b\n" + flow_properties("a->b", source, target, {"topics": topic}))
    copy_what_is_there(file, "a->b")
    assert twinlog("keygen", "--out", key)[0] == 0
    code, out, err = twinlog("verify", file, "--sign", key, "--statement", path)
    assert code == 0, out + err
    stated = json.loads(path.read_text())
    assert (stated["result"], stated["flows"][0]["flow"]) == ("equal", "a->b")
    assert [part["ranges"][0]["records"] for part in stated["flows"][0]["partitions"]] == [200, 200]
    words = ["-verify", "-pubin", "-inkey", public, "-rawin", "-in", path, "-sigfile", tmp_path / "proof.json.sig"]
    subprocess.run(["openssl", "pkeyutl", *map(str, words)], check=True, capture_output=True, timeout=60)
    # Retention takes records of the source, and another producer writes behind the copies.
    delete_records(source, topic, 50)
    produce(target, copy, [NewRecord(b"not of the flow")])
    against = ("verify", file, "--against", path, "--key", public)
    code, out, err = twinlog(*against, "-o", "json")
    assert code == 0, out + err
    answer = json.loads(out)
    assert answer["statement"]["result"] == "equal"
    here, there = answer["partitions"][0]["sides"]
    assert (here["trimmed"], here["unproved"], here["different"]) == (50, 150, 0)
    assert (there["equal"], there["newer"]) == (200, 1)
    # The topic has a changed record after it was recreated.
    delete_topic(target, copy)
    create_topic(target, copy, 2)
    for partition, chosen in enumerate((records(200), flipped(records(200)))):
        produce(target, copy, chosen, partition=partition, per_batch=50)
    code, out, err = twinlog(*against, "--target-only")
    assert code == 1, out + err
    assert f"TW-VERIFY-05: {topic}-1: target differs from the statement in 1 range, first at offsets 0 to 199" in out
    assert f"TW-VERIFY-05: {topic}-0" not in out
    path.write_bytes(path.read_bytes().replace(b'"records": 200', b'"records": 199', 1))
    code, out, err = twinlog(*against)
    assert (code, out) == (1, "")
    assert err.startswith("twinlog: TW-VERIFY-04: the signature ")

"""A range of a real source goes into a topic of its own by the command, which goes on after one that was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness.cluster import KafkaCluster
from harness.consume import Record, consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, offsets, topic_config, topics
from harness.wait import wait_for
from tests.integration.mirror_process import flow_properties

NOW = 1_700_000_000_000


def content(found: list[Record]) -> list[tuple[object, ...]]:
    return [one.content for one in found]


def test_a_range_is_copied_exactly_and_gone_on_with_after_a_kill(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = clusters
    topic = create_topic(source, new_name("orders"), 2)
    into = f"r.{topic}.replay"
    dated = [
        NewRecord(one.value, one.key, one.headers, NOW + 1_000 * number)
        for number, one in enumerate(numbered(3_000, size=2_000, keys=5, headers=True))
    ]
    produce(source, topic, dated, codec="zstd", per_batch=77)
    produce(source, topic, dated[:500], partition=1, per_batch=1)
    produce(source, topic, dated[:20], partition=1, transactional_id=f"{topic}-x", abort=True)
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = r, q\n" + flow_properties("r->q", source, target, {"topics": topic}))
    asked = ("--topics", topic, "--from", "2023-11-14T22:15:00Z", "--to", f"@{NOW + 2_500_000}", "--json")
    command = [sys.executable, "-m", "twinlog", "replay", str(file), *asked]

    def run(*options: str) -> tuple[int, list[dict[str, object]], str]:
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=600)
        return done.returncode, json.loads(done.stdout or "{}").get("partitions", []), done.stderr

    code, planned, err = run("--dry-run")
    assert (code, err) == (0, "")
    assert [(one["partition"], one["start"], one["end"], one["into"]) for one in planned] == [
        (0, 100, 2_500, into),
        # The marker of the transaction is of now.
        (1, 100, 520, into),
    ]
    assert into not in topics(target)
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def arriving() -> bool:
        assert process.poll() in (None, 0), log.read_text()
        return into in topics(target) and offsets(target, into)[1] > 0

    wait_for(arriving, 300, "some of it has arrived")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    code, rows, err = run()
    assert code == 0, err
    assert [row["problem"] for row in rows] == [None, None]
    first, second = rows
    assert first["found"]
    assert (int(str(first["found"])) + int(str(first["appended"]))) == 2_400
    assert topic_config(target, into)["retention.ms"] == "-1"
    copies = consume(target, into)
    wanted = consume(source, topic, isolation="read_uncommitted")
    for number, start, end in ((0, 100, 2_500), (1, 100, 520)):
        expected = [one for one in wanted if one.partition == number and start <= one.offset < end]
        assert content([one for one in copies if one.partition == number]) == content(expected)
    assert int(str(second["found"])) + int(str(second["appended"])) == len(copies) - 2_400

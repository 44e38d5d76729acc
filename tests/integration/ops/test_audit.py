"""What `twinlog audit` finds out about a real MirrorMaker 2 that has lost, doubled and skipped records; nothing is
changed by it."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.acls import Acl, create_acls
from harness.checks.internal_records import PositionRecord, decode_position
from harness.checks.leftovers import cluster_content
from harness.checks.requests import requests
from harness.cluster import KafkaCluster, side_by_side
from harness.connect.mm2 import EVERY_SECOND, ONE_REPLICA, MirrorMaker2
from harness.consume import consume
from harness.groups import commit_offsets, group_offsets
from harness.produce import NewRecord, numbered, produce
from harness.topics import create_topic, delete_records, offsets, set_topic_config, topics
from harness.wait import wait_for
from twinlog.cli.main import app

log = logging.getLogger(__name__)

DEADLINE_S = 240.0
TYPO = "sync.group.offset.interval.seconds"
POSITIONS = "mm2-offsets.north.internal"
READING = {
    *("ApiVersions", "Metadata", "DescribeCluster", "DescribeConfigs", "DescribeAcls", "DescribeLogDirs"),
    *("FindCoordinator", "ListGroups", "DescribeGroups", "OffsetFetch", "ListOffsets", "Fetch", "FetchConsumer"),
    "DescribeTopicPartitions",
}
"""The kinds of requests that change nothing."""

AMONG_BROKERS = {
    *("BrokerHeartbeat", "BrokerRegistration", "FetchFollower", "FetchSnapshot", "AlterPartition", "Vote"),
    *("BeginQuorumEpoch", "EndQuorumEpoch", "AllocateProducerIds", "ControllerRegistration", "Envelope"),
    *("UpdateMetadata", "LeaderAndIsr", "AssignReplicasToDirs", "UpdateRaftVoter"),
}


@dataclass
class Staged:
    """Both clusters with a mirror whose damages are known, and the reports about it."""

    source: KafkaCluster
    target: KafkaCluster
    file: Path
    report: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    page: str = ""
    rehearsed: list[str] = field(default_factory=list)
    """The lines of the rehearsal of a switchover."""
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The partition orders-0 of each group by `twinlog groups`."""
    planned: str = ""


def properties(source: KafkaCluster, target: KafkaCluster) -> str:
    lines = {
        "clusters": "north, south",
        "north.bootstrap.servers": source.bootstrap,
        "south.bootstrap.servers": target.bootstrap,
        "south.offset.flush.interval.ms": "1000",
        "north->south.enabled": "true",
        "north->south.topics": r"orders, clicks, vacant, pays\\..*",
        "north->south.groups": "shop, late, early",
        "north->south.heartbeats.replication.enabled": "false",
        # Neither MirrorMaker 2 nor its operator notices these two.
        f"north->south.{TYPO}": "5",
        "producer.linger.ms": "7",
        "emit.heartbeats.interval.seconds": "1",
        "consumer.poll.timeout.ms": "200",
        **EVERY_SECOND,
        **ONE_REPLICA,
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


def ends(cluster: KafkaCluster, *places: tuple[str, int]) -> list[int]:
    """The ends of logs, -1 for a topic that is missing yet."""
    there = topics(cluster)
    return [offsets(cluster, topic, part)[1] if topic in there else -1 for topic, part in places]


REMOTE = (("north.orders", 0), ("north.orders", 1), ("north.clicks", 0))


def stored(target: KafkaCluster) -> dict[tuple[str, int], tuple[int, PositionRecord]]:
    """MirrorMaker 2's positions, with the partition of the topic that holds each."""
    found = {}
    for record in consume(target, POSITIONS):
        position = decode_position(record)
        if position is not None and position.place is not None:
            found[position.place] = record.partition, position
    return found


def move_position(target: KafkaCluster, place: tuple[str, int], last_copied: int) -> None:
    """As a position that was written too early, or was lost in a crash."""
    partition, position = stored(target)[place]
    value = json.dumps({"offset": last_copied}, separators=(",", ":")).encode()
    produce(target, POSITIONS, [NewRecord(value, position.key.encode())], partition=partition)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    home = tmp_path_factory.mktemp("audit")
    one = KafkaCluster("audit-source", heap="384m", acls=True, counted=True)
    other = KafkaCluster("audit-target", heap="384m", acls=True, counted=True)
    with side_by_side(one, other) as (source, target):
        for topic, partitions in (("orders", 2), ("clicks", 1), ("vacant", 1), ("pays-v2", 1), ("unrelated", 1)):
            create_topic(source, topic, partitions, config={"retention.ms": "-1"} if topic == "orders" else None)
        for partition in (0, 1):
            produce(source, "orders", numbered(500), partition=partition)
        produce(source, "clicks", numbered(100))
        produce(source, "pays-v2", numbered(5))
        commit_offsets(source, {group: {("orders", 0): 400} for group in ("shop", "late")})
        commit_offsets(source, {"early": {("vacant", 0): 0}})
        text = properties(source, target)
        file = home / "mm2.properties"
        file.write_text(text, "utf-8")

        def mm2(name: str) -> MirrorMaker2:
            return MirrorMaker2(text, heap="384m", jit="quick", work_dir=home / name)

        def copied(running: MirrorMaker2, *wanted: int) -> None:
            def there() -> bool:
                running.process.require_alive()
                return ends(target, *REMOTE) == list(wanted)

            wait_for(there, DEADLINE_S, f"MirrorMaker 2 has copied {wanted}")

        with mm2("first") as first:
            copied(first, 500, 500, 100)
            wait_for(
                lambda: all(group_offsets(target, [name]).get(name) for name in ("shop", "late")),
                DEADLINE_S,
                "the groups are on the target",
            )
            # An operator lets the group read again on the source; MirrorMaker 2 never moves a group back.
            commit_offsets(source, {"shop": {("orders", 0): 100}})
            assert first.stop(60)
        # The mirror was down for longer than the source kept records.
        produce(source, "clicks", numbered(60, start=100))
        delete_records(source, "clicks", 130)
        for partition in (0, 1):
            produce(source, "orders", numbered(20, start=500), partition=partition)
        move_position(target, ("orders", 0), 500)
        move_position(target, ("orders", 1), 497)
        with mm2("second") as second:
            copied(second, 519, 522, 130)
            wait_for(lambda: settled(target), DEADLINE_S, "all positions and offset syncs are written")
            set_topic_config(target, "north.orders", {"retention.ms": "86400000"})
            create_acls(source, [Acl("orders", "User:ann", "READ")])
            page = home / "audit.html"
            done = CliRunner().invoke(app, ["audit", str(file), "-o", "json", "--sample", "50", "--html", str(page)])
            log.info("%s", done.output)
            assert done.exit_code == 1, done.output
            text_done = CliRunner().invoke(app, ["audit", str(file), "--sample", "50", "--all"])
            assert text_done.exit_code == 1, text_done.output
            strict = home / "strict.properties"
            strict.write_text("".join(line for line in text.splitlines(True) if TYPO not in line), "utf-8")
            words = ["switchover", str(strict), "--from", "north", "--to", "south", "--dry-run"]
            rehearsed = subprocess.run(
                [sys.executable, "-m", "twinlog", *words], capture_output=True, text=True, check=False
            )
            log.info("%s%s", rehearsed.stdout, rehearsed.stderr)
            assert rehearsed.returncode == 0, rehearsed.stderr
            shown = CliRunner().invoke(app, ["groups", str(strict), "-o", "json"])
            assert shown.exit_code == 1, shown.output
            (moves,) = json.loads(shown.stdout)["flows"]
            planned = CliRunner().invoke(app, ["plan", str(strict), "--all"])
            assert planned.exit_code == 0, planned.output
            log.info("%s%s", shown.stdout, planned.stdout)
            found = Staged(
                source,
                target,
                file,
                json.loads(done.stdout),
                text_done.stdout,
                page.read_text("utf-8"),
                rehearsed.stdout.splitlines(),
                {one["group"]: one["partitions"][0] for one in moves["groups"]},
                planned.stdout,
            )
            assert second.stop(60)
        yield found


def settled(target: KafkaCluster) -> bool:
    at = stored(target)
    last = {place: position.last_copied for place, (_, position) in at.items()}
    return last.get(("orders", 0)) == 519 and last.get(("orders", 1)) == 519 and last.get(("clicks", 0)) == 159


def of(report: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one for one in report["findings"] if one["kind"] == kind]


def test_each_damage_is_found_and_named_with_its_count(staged: Staged) -> None:
    report = staged.report
    (missing,) = of(report, "missing-records")
    assert (missing["count"], missing["severity"]) == (1, "critical")
    assert "orders-0: 1 missing, the first at source offset 500" in missing["details"][0]
    (doubled,) = of(report, "doubled-records")
    assert doubled["count"] == 2
    assert doubled["details"][0].startswith("orders-1: 2 doubled")
    (gap,) = of(report, "gap")
    assert (gap["count"], gap["part"]) == (30, "gaps")
    assert gap["text"].startswith("30 records of clicks were deleted on north before the copy")
    assert not of(report, "changed-records")


def test_groups_have_true_counts(staged: Staged) -> None:
    there = {name: group_offsets(staged.target, [name])[name]["north.orders", 0].offset for name in ("shop", "late")}
    (skips,) = of(staged.report, "group-skips")
    assert skips["count"] >= there["shop"] - 100 > 0
    assert skips["text"] == f"group shop would skip up to {skips['count']} records on south"
    assert f"continues at {there['shop']} on the target, should be at least " in skips["details"][0]
    (repeats,) = of(staged.report, "group-repeats")
    assert repeats["count"] >= 400 - there["late"]
    assert repeats["text"] == f"group late would repeat up to {repeats['count']} records on south"
    for finding, verb in ((skips, "skipped"), (repeats, "repeated")):
        assert not finding["exact"]
        assert f"up to {finding['count']} records would be {verb} by consumer groups" in staged.report["verdict"]


def test_a_switchover_says_the_same_about_groups(staged: Staged) -> None:
    there = {name: group_offsets(staged.target, [name])[name]["north.orders", 0].offset for name in ("shop", "late")}
    calls = [line.strip() for line in staged.rehearsed if "north.orders-0" in line]
    (skips,), (repeats,) = of(staged.report, "group-skips"), of(staged.report, "group-repeats")
    late, shop = calls
    stands = re.fullmatch(
        r"(group late, north.orders-0: there|commit for group late on south: north.orders-0 at (\d+)); "
        r"offset 400 has no exact translation: the group would repeat some, up to (\d+) records",
        late,
    )
    assert stands, late
    place = int(stands[2] or there["late"])
    assert there["late"] <= place < 400 <= place + int(stands[3]) == there["late"] + repeats["count"]
    ahead = re.fullmatch(
        rf"group shop, north.orders-0: ahead; on the target the group continues at {there['shop']}, and its position "
        r"there is (\d+) to (\d+): it would skip (\d+) to (\d+) records, unless it has read them there",
        shop,
    )
    assert ahead, shop
    least, past, fewest, most = map(int, ahead.groups())
    assert least <= 100 <= past
    assert 0 < fewest <= most == skips["count"] == there["shop"] - least
    # `groups` and `plan` say the same, and `plan` names the partition.
    (reason,) = staged.groups["shop"]["reasons"]
    assert shop == f"group shop, north.orders-0: ahead; {reason['text']}"
    assert f"shop: stays: orders-0: {reason['text']}" in staged.planned
    for name, finding in (("shop", skips), ("late", repeats)):
        seen = staged.groups[name]
        assert not seen["exact"]
        assert f"should be at least {seen['translated']}, up to {finding['count']} " in finding["details"][0]
    assert staged.groups["late"]["repeats"] == repeats["count"]
    assert staged.groups["shop"]["translated"] == least
    assert place == staged.groups["late"]["translated"]
    if there["late"] == place:
        text = f"offset 400 has no exact translation: the group would repeat some, up to {repeats['count']} records"
        assert f"late: stays: orders-0: {text}" in staged.planned
    else:
        assert "late: offsets of 1 partition are committed on south" in staged.planned


def test_a_group_in_an_empty_topic_could_move(staged: Staged) -> None:
    assert of(staged.report, "group-unclear") == []
    (call,) = (line.strip() for line in staged.rehearsed if "north.vacant-0" in line)
    assert call == "commit for group early on south: north.vacant-0 at 0"


def test_settings_keys_and_near_misses_are_named(staged: Staged) -> None:
    report = staged.report
    (setting,) = of(report, "setting")
    assert setting["details"] == [
        "orders / north.orders: retention.ms -1 on north, 86400000 on south",
    ]
    (acl,) = of(report, "acl")
    assert acl["details"] == ["ALLOW READ on topic north.orders for User:ann from *"]
    (outside,) = of(report, "topic-outside")
    assert (outside["count"], outside["details"]) == (1, ["pays-v2: 5 records"])
    keys = {one["text"].split(": ", 1)[1]: one["way_out"] for one in of(report, "ignored-key")}
    typo = "north->south.sync.group.offset.interval.seconds is an unknown key, which MirrorMaker 2 ignores"
    assert keys[typo] == "write north->south.sync.group.offsets.interval.seconds"
    assert any(text.startswith("producer.linger.ms is ignored at this place") for text in keys), keys


def test_the_report_begins_with_counts_and_a_verdict(staged: Staged) -> None:
    report = staged.report
    assert report["complete"] is True, report["flows"]
    assert report["counts"]["critical"] == 4
    assert report["verdict"].startswith(
        "A failover today would lose or repeat records: 31 records are missing, 2 records are doubled, "
    )
    assert [one["severity"] for one in report["findings"]][:4] == ["critical"] * 4
    (flow,) = report["flows"]
    assert "MirrorMaker 2 runs it" in flow["run_by"]
    lines = staged.text.splitlines()
    assert lines[1] == report["verdict"]
    assert sum("way out:" in line for line in lines) == len(report["findings"])
    assert report["verdict"] in staged.page
    assert "<script" not in staged.page


def test_nothing_is_written_by_an_audit(staged: Staged) -> None:
    clusters = (staged.source, staged.target)
    before = [cluster_content(cluster) for cluster in clusters]
    counted = [requests(cluster) for cluster in clusters]
    done = CliRunner().invoke(app, ["audit", str(staged.file), "-o", "json"])
    assert done.exit_code == 1, done.output
    kinds = [set(requests(cluster) - count) for cluster, count in zip(clusters, counted, strict=True)]
    assert [cluster_content(cluster) for cluster in clusters] == before
    for found in kinds:
        assert {"Metadata", "DescribeConfigs"} <= found, "the requests are counted"
        assert found - AMONG_BROKERS <= READING, found
    # MirrorMaker 2 was stopped.
    (process,) = of(json.loads(done.stdout), "process")
    assert process["severity"] == "critical"


@pytest.mark.scenario
def test_a_whole_comparison_finds_the_same(staged: Staged) -> None:
    done = CliRunner().invoke(app, ["audit", str(staged.file), "--full", "-o", "json", "--master", "local[1]"])
    assert done.exit_code == 1, done.output
    whole = json.loads(done.stdout)
    for kind in ("missing-records", "doubled-records", "gap"):
        assert [one["count"] for one in of(whole, kind)] == [one["count"] for one in of(staged.report, kind)]


def test_a_resource_of_strimzi_has_the_findings_of_its_file(staged: Staged, tmp_path: Path) -> None:
    wrong = ("north->south.sync.group.offset.interval.seconds", "producer.linger.ms", "consumer.poll.timeout.ms")
    lines = [line for line in staged.file.read_text("utf-8").splitlines() if not line.startswith(wrong)]
    file = tmp_path / "mm2.properties"
    file.write_text("\n".join(lines), "utf-8")
    folder = tmp_path / "resource"
    converted = CliRunner().invoke(app, ["convert", str(file), "-o", "strimzi", "--output-dir", str(folder)])
    (resource,) = folder.glob("*.yaml")
    # The operator's workers have the positions under the names of their connectors.
    for partition, position in stored(staged.target).values():
        value = json.dumps({"offset": position.last_copied}, separators=(",", ":")).encode()
        key = position.key.replace('"MirrorSourceConnector"', '"north->south.MirrorSourceConnector"').encode()
        produce(staged.target, POSITIONS, [NewRecord(value, key)], partition=partition)
    done = CliRunner().invoke(app, ["audit", str(resource), "-o", "json", "--sample", "50"])
    assert done.exit_code == 1, (converted.output, done.output)
    report = json.loads(done.stdout)
    for kind in ("missing-records", "doubled-records", "gap", "group-skips", "group-repeats", "setting", "acl"):
        assert of(report, kind), (kind, done.stdout)
        assert [one["count"] for one in of(report, kind)] == [one["count"] for one in of(staged.report, kind)], kind


def test_a_silent_cluster_and_a_short_time_have_their_codes(staged: Staged, tmp_path: Path) -> None:
    text = staged.file.read_text("utf-8")
    silent = tmp_path / "silent.properties"
    silent.write_text(text.replace(staged.target.bootstrap, "127.0.0.1:9"), "utf-8")
    assert CliRunner().invoke(app, ["audit", str(silent)]).exit_code == 3

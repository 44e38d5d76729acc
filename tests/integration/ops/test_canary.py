"""A canary beside the real MirrorMaker 2: everything of MirrorMaker 2 stays, and the report compares both."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from harness.checks.checker import Load
from harness.checks.internal_records import decode_position
from harness.cluster import KafkaCluster
from harness.connect.mm2 import EVERY_SECOND, ONE_REPLICA, MirrorMaker2
from harness.consume import consume
from harness.groups import commit_offsets, group_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for
from tests.integration.parity import MM2_VERSION
from tests.integration.running import RunTwinlog
from twinlog.cli.main import app
from twinlog.ops.canary.process_tree import ProcessTree
from twinlog.ops.canary.use_count import START_S

log = logging.getLogger(__name__)

pytestmark = pytest.mark.scenario

DEADLINE_S = 240.0
TOPIC, OTHER, GROUP = "n-seed", "n-soil", "n-gardener"
COPY, CANARY_COPY = f"nest.{TOPIC}", f"nest-canary.{TOPIC}"
BEFORE = 2_000


def properties(source: KafkaCluster, target: KafkaCluster) -> str:
    lines = {
        "clusters": "nest, tree",
        "nest.bootstrap.servers": source.bootstrap,
        "tree.bootstrap.servers": target.bootstrap,
        "nest->tree.enabled": "true",
        "nest->tree.topics": f"{TOPIC}, {OTHER}",
        "nest->tree.groups": GROUP,
        "emit.heartbeats.enabled": "false",
        "tree.offset.flush.interval.ms": "2000",
        **EVERY_SECOND,
        **ONE_REPLICA,
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


def run(*words: object) -> Result:
    result = CliRunner().invoke(app, ["canary", *map(str, words)])
    log.warning("twinlog canary %s: %d\n%s", " ".join(map(str, words)), result.exit_code, result.output)
    return result


class Beside:
    """MirrorMaker 2 and a canary that copy the same topic; `reports` by their names."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster) -> None:
        self.source, self.target = source, target
        self.reports: dict[str, tuple[int, Any]] = {}
        self.topics_before: set[str] = set()
        self.topics_after: set[str] = set()
        self.source_topics: tuple[set[str], set[str]] = (set(), set())

    def copied(self, remote: str, at_least: int) -> None:
        wait_for(
            lambda: remote in topics(self.target) and offsets(self.target, remote)[1] >= at_least,
            DEADLINE_S,
            f"{remote} has {at_least} records",
        )

    def stored(self, at_least: int | None = None) -> None:
        """Wait until MirrorMaker 2 has stored the position of a late record, of the last without `at_least`: it
        compares up to there."""
        wanted = offsets(self.source, TOPIC)[1] - 1 if at_least is None else at_least

        def flushed() -> bool:
            decoded = [decode_position(one) for one in consume(self.target, "mm2-offsets.nest.internal")]
            return any(one.place == (TOPIC, 0) and (one.last_copied or 0) >= wanted for one in decoded)

        wait_for(flushed, DEADLINE_S, "MirrorMaker 2 has stored a late position", every_s=1.0)

    def report(self, name: str, *words: object) -> None:
        result = run("report", *words, "-o", "json")
        self.reports[name] = result.exit_code, json.loads(result.stdout)


@pytest.fixture(scope="module")
def beside(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Beside]:
    here = Beside(source_cluster, target_cluster)
    home = tmp_path_factory.mktemp("canary")
    file, canary = home / "mm2.properties", home / "out/canary.properties"
    file.write_text(properties(source_cluster, target_cluster))
    twinlog = RunTwinlog(home / "twinlog")
    for name in (TOPIC, OTHER):
        create_topic(source_cluster, name)
        produce(source_cluster, name, numbered(BEFORE))
    mm2 = MirrorMaker2(file.read_text(), heap="384m", jit="quick", version=MM2_VERSION, work_dir=home / "mm2")
    try:
        mm2.start()
        here.copied(COPY, BEFORE)
        here.copied(f"nest.{OTHER}", BEFORE)
        here.topics_before, here.source_topics = set(topics(target_cluster)), (set(topics(source_cluster)), set())
        assert run(file, "--topic", TOPIC, "-o", home / "out").exit_code == 0
        aliases, _, text = canary.read_text().partition("clusters = ")[2].partition("\n")
        process = twinlog(aliases, text)
        here.copied(CANARY_COPY, BEFORE)
        here.report("early", file, canary, "--observe", "0", "--pid", process.pid, "--mm2-pid", mm2.pid)
        with Load(source_cluster, TOPIC, 1, rate=300) as load:

            def came() -> bool:
                mm2.process.require_alive()
                commit_offsets(source_cluster, {GROUP: {(TOPIC, 0): offsets(source_cluster, TOPIC)[1] - 500}})
                there = group_offsets(target_cluster, [GROUP]).get(GROUP, {})
                return (COPY, 0) in there and there[COPY, 0].offset > BEFORE

            wait_for(came, DEADLINE_S, "the group's offset comes across", every_s=1.0)
            here.stored(BEFORE)
            # Both have started by then.
            for pid in (process.pid, mm2.pid):
                wait_for(lambda: ProcessTree(pid, "--pid").age_s() > START_S, DEADLINE_S, "it has started")  # noqa: B023
            wait_for(lambda: "Spark's tasks copy now" in process.log, DEADLINE_S, "Spark's tasks copy")
            here.report("watched", file, canary, "--observe", "12", "--pid", process.pid, "--mm2-pid", mm2.pid)
            load.stop()
        end = offsets(source_cluster, TOPIC)[1]
        here.copied(COPY, end)
        here.copied(CANARY_COPY, end)
        here.stored()
        here.topics_after = set(topics(target_cluster))
        here.source_topics = here.source_topics[0], set(topics(source_cluster))
        here.report("full", file, canary, "--observe", "0", "--full")
        # Two records of another producer in MirrorMaker 2's copy.
        produce(target_cluster, COPY, numbered(2, start=90_000))
        produce(source_cluster, TOPIC, numbered(300, start=50_000))
        here.copied(COPY, end + 302)
        here.copied(CANARY_COPY, end + 300)
        here.stored()
        here.report("damaged", file, canary, "--observe", "0")
        assert process.terminate() == 0, process.log
        assert mm2.stop(120.0)
        yield here
    finally:
        mm2.kill()
        twinlog.close()


def test_the_canary_leaves_the_topics_of_mirror_maker_2_as_they_are(beside: Beside) -> None:
    new = beside.topics_after - beside.topics_before
    assert new
    assert all("nest-canary" in name or name == "mm2-twinlog-reload.internal" for name in new), new
    # The group of this test brings a topic of the brokers.
    assert beside.source_topics[1] - beside.source_topics[0] <= {"__consumer_offsets"}
    own = {one.value for one in numbered(2, start=90_000)}
    copies = [one.value for one in consume(beside.target, COPY) if one.value not in own]
    assert copies == [one.value for one in consume(beside.source, TOPIC)]
    # MirrorMaker 2's offset syncs stay its own.
    syncs = consume(beside.source, "mm2-offset-syncs.tree.internal")
    assert syncs
    assert not any("mm2-offset-syncs" in name and "canary" in name for name in topics(beside.source))


def test_the_report_of_a_running_pair(beside: Beside) -> None:
    code, found = beside.reports["watched"]
    assert (code, found["equal"], found["problems"]) == (0, True, []), found
    mm2, own = found["copies"]
    assert (mm2["program"], own["program"]) == ("MirrorMaker 2", "twinlog")
    assert mm2["differences"] == own["differences"] == 0
    # The sample of MirrorMaker 2's copies begins at offset syncs, and ends at its stored position.
    assert own["equal_records"] > BEFORE
    assert mm2["equal_records"] > 0
    for lag in found["lag"]:
        assert lag["looks"] >= 3
        assert lag["now"] is not None
        assert lag["now"] < 5_000
    assert found["lag"][0]["state"].startswith("run by others: MirrorMaker 2")
    assert found["lag"][1]["state"].startswith("running")


def test_groups_have_the_most_repeats_of_both_copies(beside: Beside) -> None:
    _, found = beside.reports["watched"]
    (group,) = found["groups"]
    assert (group["group"], group["topic"]) == (GROUP, TOPIC)
    mm2, own = group["mirror_maker_2"], group["twinlog"]
    # Both copies begin with the first record of the source, and nothing is missing.
    assert own == {"resumes": group["committed"], "exact": True}
    # Between two offset syncs of MirrorMaker 2 the place is a range, as for `twinlog groups` and `twinlog audit`.
    assert mm2["resumes"] <= mm2["should_be"] <= group["committed"] <= mm2["resumes"] + mm2["repeats"]
    if mm2["exact"]:
        assert mm2["should_be"] == group["committed"] == mm2["resumes"] + mm2["repeats"]
    assert mm2["skips"] == 0


def test_processor_time_and_memory_of_both(beside: Beside) -> None:
    _, found = beside.reports["watched"]
    for use in found["use"]:
        assert use["records"] > 1_000
        assert use["cpu_seconds"] > 0
        assert use["memory_bytes"] > 100_000_000
    _, early = beside.reports["early"]
    assert early["use"][1]["way_out"].startswith("too early: ")
    assert "CPU" not in early["verdict"]
    _, without = beside.reports["full"]
    assert "--mm2-pid PID" in without["use"][0]["way_out"]


def test_everything_is_compared_on_demand(beside: Beside) -> None:
    code, found = beside.reports["full"]
    assert (code, found["equal"], found["full"]) == (0, True, True)
    end = offsets(beside.source, TOPIC)[1] - 300
    assert [one["equal_records"] for one in found["copies"]] == [end, end]
    assert "every record (" in found["verdict"]


def test_records_of_another_producer_in_mirror_maker_2s_copy_are_found(beside: Beside) -> None:
    code, found = beside.reports["damaged"]
    assert code == 1
    mm2, own = found["copies"]
    assert (mm2["differences"], own["differences"]) == (2, 0)
    assert "2 records of MirrorMaker 2's copies differ from the source" in found["verdict"]


def test_a_silent_cluster_ends_with_3(beside: Beside, tmp_path: Path) -> None:
    text = properties(beside.source, beside.target).replace(beside.target.bootstrap, "127.0.0.1:1")
    (tmp_path / "mm2.properties").write_text(text)
    assert run(tmp_path / "mm2.properties", "--topic", TOPIC, "-o", tmp_path / "out").exit_code == 0
    result = run("report", tmp_path / "mm2.properties", tmp_path / "out/canary.properties", "--observe", "0")
    assert result.exit_code == 3

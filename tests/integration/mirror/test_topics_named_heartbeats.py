"""A topic of a user whose name ends in `.heartbeats`: transformed, guarded against gaps, and moved at a switchover."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.broker import to_properties
from harness.cluster import KafkaCluster, side_by_side
from harness.connect.mm2 import ONE_REPLICA, MirrorMaker2
from harness.consume import consume
from harness.produce import NewRecord, produce
from harness.topics import create_topic, delete_records, topics
from harness.wait import wait_for
from tests.integration.consuming import Member
from tests.integration.mirror_process import MirrorProcess
from twinlog.cli.run import EXITS
from twinlog.mirror.records import Heartbeat
from twinlog.model.types import Alias

COPY_S = 180.0
SECRET = b'{"ssn":"123-45-6789"}'
FILE = """
{source}.bootstrap.servers = {here}
{target}.bootstrap.servers = {there}
{flow}.enabled = true
{flow}.topics = {topics}
refresh.topics.interval.seconds = 1
sync.topic.acls.enabled = false
""" + to_properties(ONE_REPLICA)
MASK = """
{flow}.value.converter = org.apache.kafka.connect.json.JsonConverter
{flow}.value.converter.schemas.enable = false
{flow}.transforms = mask
{flow}.transforms.mask.type = org.apache.kafka.connect.transforms.MaskField$Value
{flow}.transforms.mask.fields = ssn
"""
STAMP = """
{flow}.header.converter = org.apache.kafka.connect.storage.SimpleHeaderConverter
{flow}.transforms = stamp
{flow}.transforms.stamp.type = org.apache.kafka.connect.transforms.InsertHeader
{flow}.transforms.stamp.header = copied-by
{flow}.transforms.stamp.value.literal = mirror
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Of its own: every flow of other tests would copy these topics, too."""
    east, west = (KafkaCluster(name, sasl=False, heap="256m") for name in ("east", "west"))
    with side_by_side(east, west) as both:
        yield both


class Site:
    """A flow from a source alias of its own, so that each test begins anew, to west."""

    def __init__(self, pair: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], home: Path) -> None:
        self.east, self.west = pair
        self.source, self.target = new_name("east"), new_name("west")
        self.orders, self.device = new_name("orders"), f"{new_name('device')}.heartbeats"
        self._home = home
        for topic in (self.orders, self.device):
            create_topic(self.east, topic)
            produce(self.east, topic, [NewRecord(SECRET)])

    def lines(self, more: str = "", topics: str | None = None) -> str:
        flow = f"{self.source}->{self.target}"
        named = {"source": self.source, "target": self.target, "flow": flow, "topics": topics or self.orders}
        return (FILE + more).format(here=self.east.bootstrap, there=self.west.bootstrap, **named)

    def twinlog(self, more: str = "", topics: str | None = None) -> MirrorProcess:
        clusters = f"{self.source}, {self.target}"
        return MirrorProcess(self._home, clusters, self.lines(more, topics), "--until", "caught-up")

    def copied(self, topic: str) -> list[bytes | None]:
        remote = f"{self.source}.{topic}"
        return [one.value for one in consume(self.west, remote)] if remote in topics(self.west) else []


@pytest.fixture
def site(pair: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path) -> Site:
    return Site(pair, new_name, tmp_path / "twinlog")


def caught_up(process: MirrorProcess) -> str:
    process.start()
    assert process.wait(COPY_S) == 0, process.log
    return process.log


def test_it_is_masked_and_heartbeats_of_other_mirrors_are_left_as_they_are(
    site: Site, new_name: Callable[[str], str]
) -> None:
    """Its mirror has a file of its own, and no alias of it stands in this one."""
    north = new_name("north")
    beats = [Heartbeat(Alias("island"), Alias(north), number) for number in range(3)]
    create_topic(site.east, f"{north}.heartbeats")
    produce(site.east, f"{north}.heartbeats", [NewRecord(beat.value, beat.key) for beat in beats])
    log = caught_up(site.twinlog(MASK))
    assert site.copied(site.orders) == [b'{"ssn":""}']
    assert site.copied(site.device) == [b'{"ssn":""}']
    assert site.copied(f"{north}.heartbeats") == [beat.value for beat in beats]
    (warning,) = re.findall(r"mirrored in spite of `topics`: (.*?);", log)
    assert site.device in warning
    assert north not in warning


@pytest.mark.parity
def test_mirror_maker_2_transforms_it_as_well(site: Site, new_name: Callable[[str], str], tmp_path: Path) -> None:
    theirs = Site((site.east, site.west), new_name, tmp_path)
    theirs.orders, theirs.device = site.orders, site.device
    clusters = f"clusters = {theirs.source}, {theirs.target}\n"
    with MirrorMaker2(clusters + theirs.lines(STAMP), jit="quick", work_dir=tmp_path / "mm2"):
        caught_up(site.twinlog(STAMP))
        wait_for(lambda: theirs.copied(site.device) and theirs.copied(site.orders), COPY_S, "MirrorMaker 2 has copied")
    for topic in (site.orders, site.device):
        ours, others = (consume(site.west, f"{alias}.{topic}") for alias in (site.source, theirs.source))
        assert [one.content for one in ours] == [one.content for one in others]
        assert [one.headers for one in ours] == [(("copied-by", b"mirror"),)]


@pytest.mark.scenario
def test_records_that_were_deleted_before_they_were_copied_are_a_gap(site: Site) -> None:
    process = site.twinlog()
    caught_up(process)
    produce(site.east, site.device, [NewRecord(SECRET)] * 10)
    delete_records(site.east, site.device, 6)
    process.start()
    assert process.wait(COPY_S) == EXITS.held, process.log
    device = re.escape(site.device)
    held = rf"TW-GAP-01: \S+: {device}-0 is held at source offset 1: source offsets 1 to 5 \(5 offsets\)"
    assert re.search(held, process.log), process.log
    assert "no user's records" not in process.log
    assert site.copied(site.device) == [SECRET]


@pytest.mark.scenario
def test_it_alone_is_something_to_mirror(site: Site) -> None:
    log = caught_up(site.twinlog(topics=re.escape(site.device).replace("\\", "\\\\")))
    assert site.copied(site.device) == [SECRET]
    assert "no topic of" not in log
    assert "mirrored in spite of" not in log or site.device not in log.split("mirrored in spite of")[1]


def test_it_is_in_the_plan_of_a_run_and_of_a_switchover(site: Site, tmp_path: Path) -> None:
    process = site.twinlog()
    plan = "".join(_command("plan", process.file))
    assert site.device in plan
    assert "mirrored in spite of `topics`" in plan
    caught_up(process)
    produce(site.east, site.device, [NewRecord(SECRET)] * 4)
    status = json.loads(_command("status", process.file, "--json")[0])
    assert [flow["lag"]["records"] for flow in status["flows"] if flow["flow"] == f"{site.source}->{site.target}"] == [
        4
    ]
    back = process.file.with_name("both.properties")
    back.write_text(process.file.read_text() + f"{site.target}->{site.source}.enabled = true\n")
    ends = ("--from", site.source, "--to", site.target)
    # The process has ended.
    with Member(site.west, f"{site.source}-mm2", [f"{site.source}.{site.orders}"], "classic") as member:
        member.read(1)
        rehearsed = "".join(_command("switchover", back, *ends, "--fence", "quota", "--rehearse"))
    assert f"create topic {site.device} on {site.target}" in rehearsed
    assert f"create topic {site.orders} on {site.target}" in rehearsed
    assert "create topic heartbeats" not in rehearsed


def _command(name: str, *words: str | Path) -> tuple[str, str]:
    """What a command writes to its output and to its errors; how it ends is not looked at."""
    command = [sys.executable, "-m", "twinlog", name, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COPY_S, check=False)
    return done.stdout, done.stderr

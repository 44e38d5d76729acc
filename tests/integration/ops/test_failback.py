"""The page about switchovers, followed line by line there and back, by a login that has the printed rights only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.acls import Acl, acls, create_acls
from harness.cluster import KafkaCluster, side_by_side
from harness.connect.mm2 import CONNECTORS_ONE_REPLICA
from harness.consume import consume
from harness.containers.guide import Command, GuideShell, read_guide
from harness.groups import commit_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic, topics
from tests.integration.mirror_process import GROUPS_EVERY_SECOND, flow_properties
from tests.integration.ops.test_acls import USER, lines_of, rights_of
from tests.integration.running import sasl_properties

PAGE = (Path(__file__).parents[3] / "docs" / "switchover.md").read_text(encoding="utf-8")
FILE = "mm2.properties"
WRITER = "connect"
ONE = "1"


def section(title: str, until: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split(f"\n{until}")[0]


THERE = section("A planned switchover", "### Steps")
BACK = section("Failback", "## Rights")
(FLOW_BACK,) = re.findall(r"^```properties\n(.*?)^```$", BACK, re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[Command]:
    """The commands of a part of the page, also in its lists; the times in their shown lines are of another run."""
    steps = read_guide(re.sub("^    ", "", text, flags=re.MULTILINE))
    return [Command(step.line, step.text) for step in steps if isinstance(step, Command)]


@pytest.fixture
def guarded() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    east, west = (KafkaCluster(alias, heap="384m", acls=True) for alias in ("east", "west"))
    with side_by_side(east, west) as both:
        yield both


def denials(cluster: KafkaCluster) -> list[str]:
    """The topics that a fence closes."""
    return sorted(acl.name for acl in acls(cluster) if acl.permission == "DENY")


class Operator:
    """Types commands, and grants printed rights as an administrator of both clusters."""

    def __init__(self, shell: GuideShell, clusters: dict[str, KafkaCluster]) -> None:
        self._shell = shell
        self._clusters = clusters

    def types(self, text: str, *, may_fail: bool = False) -> str:
        self._shell.follow([Command(0, text, may_fail=may_fail)])
        return self._shell.printed[-1]

    def grants(self, command: str) -> int:
        """Grant the rights that a command prints; returns their number."""
        found = lines_of(self.types(command, may_fail=True))
        for alias, lines in found.items():
            create_acls(self._clusters[alias], [right for line in lines for right in rights_of(line)])
        return sum(map(len, found.values()))


@pytest.mark.scenario
def test_the_page_leads_there_and_back_with_the_printed_rights(
    guarded: tuple[KafkaCluster, KafkaCluster], tmp_path: Path
) -> None:
    east, west = guarded
    create_topic(east, "orders")
    create_topic(west, "local")
    produce(east, "orders", numbered(100))
    produce(west, "local", numbered(5))
    commit_offsets(east, {"shop": {("orders", 0): 100}})
    for cluster in guarded:
        create_acls(cluster, [Acl("orders", f"User:{WRITER}", "WRITE")])
    settings = {"topics": "orders", "groups": "shop", **GROUPS_EVERY_SECOND}
    common = {
        **CONNECTORS_ONE_REPLICA,
        "east.offset.storage.replication.factor": ONE,
        "east.offset.storage.partitions": "3",
        "refresh.topics.interval.seconds": ONE,
    }
    text = "clusters = east, west\n" + "".join(f"{key} = {value}\n" for key, value in common.items())
    text += flow_properties("east->west", east, west, settings) + sasl_properties({"east": east, "west": west}, USER)
    (tmp_path / FILE).write_text(text, "utf-8")

    with GuideShell(tmp_path, {}) as shell:
        operator = Operator(shell, {"east": east, "west": west})
        assert operator.grants(f"twinlog acls {FILE} --for run,switchover,reload,groups --missing") > 0
        operator.types(f"twinlog run {FILE} --conf spark.ui.enabled=false > run.log 2>&1 &")
        operator.types(f"twinlog groups {FILE} --flow east:west --wait --timeout 200")
        shell.follow(commands(THERE))
        assert denials(east) == ["orders"]
        produce(west, "orders", numbered(20), user=WRITER)
        commit_offsets(west, {"shop": {("orders", 0): 20}})

        with (tmp_path / FILE).open("a", encoding="utf-8") as file:
            file.write(FLOW_BACK)
        rights, *back, release = commands(BACK)
        assert operator.grants(rights.text) > 0
        shell.follow([rights, *back])
        assert denials(east) == []
        assert denials(west) == ["orders"]
        shell.follow([release])
        assert denials(west) == []
        operator.types(f"twinlog groups {FILE} --flow east:west --wait --timeout 60")
        operator.types("kill %1; wait")

    assert len(consume(east, "west.orders")) == 20
    assert not {"west.local", "west.east.orders"} & topics(east).keys()

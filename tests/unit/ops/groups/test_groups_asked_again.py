"""`twinlog groups` beside a broker that hangs for a moment, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import LIST_GROUPS, LIST_OFFSETS
from twinlog.cli.main import app
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.ops.groups import reader as groups
from twinlog.settings.flow import ClientSettings

FILE = """\
clusters = s, w
s.bootstrap.servers = s-1:9092
w.bootstrap.servers = w-1:9092
s->w.enabled = true
"""

Clusters = tuple[VirtualCluster, VirtualCluster]


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clusters]:
    """A flow that has begun, and no group."""
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        for topic in ("mm2-offsets.s.internal", "mm2-twinlog-offsets.s.internal", "s.checkpoints.internal"):
            target.create(topic)
        source.create("mm2-offset-syncs.w.internal")

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        # It is the process's own.
        monkeypatch.setattr("twinlog.ops.groups.command.log_warnings", lambda: None)
        monkeypatch.setattr(groups, "GroupsReader", partial(groups.GroupsReader, connect=connect))
        yield source, target


def run(tmp_path: Path) -> tuple[int, str]:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    done = CliRunner().invoke(app, ["groups", str(file)])
    return done.exit_code, done.stdout + done.stderr


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("times", "answers"), [(1, True), (2, False)])
def test_a_cluster_is_asked_again_before_it_counts_as_dead(
    clusters: Clusters, tmp_path: Path, side: int, times: int, answers: bool
) -> None:
    clusters[side].fault(LIST_GROUPS, Fault(lost=True), times=times)
    code, out = run(tmp_path)
    assert clusters[side].faults_left == 0
    if answers:
        assert (code, out) == (3, "s->w: no group that it follows has committed anything in a topic that it mirrors\n")
    else:
        assert code == 1
        assert ("the source does not answer" in out) == (side == 0)


def test_what_the_flow_has_stored_is_asked_for_again(clusters: Clusters, tmp_path: Path) -> None:
    clusters[1].fault(LIST_OFFSETS, Fault(lost=True), topic="mm2-offsets.s.internal")
    assert run(tmp_path)[0] == 3
    assert clusters[1].faults_left == 0

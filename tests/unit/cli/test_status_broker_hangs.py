"""`twinlog status` where a broker of the target gives no answer, in virtual time: another one leads in its place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import LIST_OFFSETS
from twinlog.cli.main import app
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.settings.flow import ClientSettings
from twinlog.status import flow

FILE = """\
clusters = s, w
s.bootstrap.servers = s-1:9092
w.bootstrap.servers = w-1:9092
s->w.enabled = true
"""
PROGRESS = "mm2-twinlog-progress.s.internal"


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualCluster]:
    with virtual_loop(1) as loop:
        VirtualCluster(loop, "s")
        target = VirtualCluster(loop, "w")
        target.create(PROGRESS)

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        # It is the process's own.
        monkeypatch.setattr("twinlog.cli.status.log_warnings", lambda: None)
        monkeypatch.setattr(flow, "FlowReader", partial(flow.FlowReader, connect=connect))
        yield target


@pytest.mark.parametrize(("times", "code", "word"), [(1, 3, "not running"), (2, 1, "unknown")])
def test_it_is_asked_again_before_its_cluster_is_called_dead(
    target: VirtualCluster, tmp_path: Path, times: int, code: int, word: str
) -> None:
    target.fault(LIST_OFFSETS, Fault(lost=True), times=times, topic=PROGRESS)
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    done = CliRunner().invoke(app, ["status", str(file)])
    assert done.stdout.startswith(f"s->w: {word}")
    assert (done.exit_code, target.faults_left) == (code, 0)

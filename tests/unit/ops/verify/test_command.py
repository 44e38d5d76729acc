"""`twinlog verify` for several flows, of which one cannot be compared; in virtual time, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from twinlog.cli.main import app
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.ops.verify import planner as verification
from twinlog.settings.flow import ClientSettings

FILE = """\
clusters = s, x, w
s.bootstrap.servers = s-1:9092
x.bootstrap.servers = x-1:9092
w.bootstrap.servers = w-1:9092
x->w.enabled = true
s->w.enabled = true
"""


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualCluster]:
    """Its flow has an empty topic to compare; cluster x does not answer."""
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        VirtualCluster(loop, "x").stop(1)
        source.create("t")
        target.create("s.t")

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        # They are the process's own.
        for setting in ("signals.call", "log_warnings"):
            monkeypatch.setattr(f"twinlog.ops.verify.command.{setting}", lambda *_: None)
        monkeypatch.setattr(verification, "VerifyPlanner", partial(verification.VerifyPlanner, connect=connect))
        yield source


def run(tmp_path: Path, *options: str) -> tuple[int, str, str]:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    done = CliRunner().invoke(app, ["verify", str(file), *options])
    return done.exit_code, done.stdout, done.stderr


def test_a_range_that_ends_before_it_begins_is_refused_as_it_was_written(tmp_path: Path) -> None:
    code, _, said = run(tmp_path, "--since", "2026-11-20T08:00:00Z", "--until", "2026-11-20T07:00:00Z")
    assert code == 2
    assert "the range from 2026-11-20T08:00:00Z to 2026-11-20T07:00:00Z is empty" in " ".join(
        said.replace("\u2502", "").split()
    )


def test_the_other_flows_are_compared(source: VirtualCluster, tmp_path: Path) -> None:
    code, out, _ = run(tmp_path)
    assert code == 3
    assert "s->w  t" in out
    assert "equal" in out
    assert "flow x->w was not compared: cluster x" in out
    code, out, _ = run(tmp_path, "-o", "json")
    answer = json.loads(out)
    assert (code, answer["equal"], len(answer["partitions"])) == (3, None, 1)
    assert [one["flow"] for one in answer["flows_not_compared"]] == ["x->w"]


def test_without_any_flow_it_ends_with_the_error(source: VirtualCluster, tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "--flow", "x->w")
    assert (code, out) == (3, "")
    assert err.startswith("twinlog: TW-NET-01: cluster x")
    source.stop(1)
    code, out, err = run(tmp_path)
    assert (code, out) == (3, "")
    assert sorted(line.split("cluster ")[1][0] for line in err.splitlines()) == ["s", "x"]

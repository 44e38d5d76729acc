"""`twinlog verify` for several flows, of which one cannot be compared, and with a statement; in virtual time, without
Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.unit.ops.verify.two_logs import made, put, some
from twinlog.cli.main import app
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.ops.verify import planner as verification
from twinlog.ops.verify import recheck_planner, statement, task
from twinlog.ops.verify.signing import SigningKey
from twinlog.settings.client import ClientSettings

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


class InThisProcess:
    """Runs the tasks of a job one after the other."""

    slots = 1

    def run_tasks(self, work: Callable[[Iterator[Any]], Iterator[Any]], shares: Sequence[Any]) -> list[Any]:
        return list(work(iter(shares)))


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[VirtualCluster, VirtualCluster]]:
    """Both clusters of flow s->w with 120 equal records, and a pair of keys in `proof.key`."""
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        source.create("t")
        target.create("s.t")
        put(source, "t", some(120))
        put(target, "s.t", some(120), 7)

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        def run_here(job: Callable[..., Any], *_: object, **__: object) -> Any:
            return job(InThisProcess(), None)

        pairs: dict[Any, task.ClusterPair] = {}
        for setting in ("signals.call", "log_warnings"):
            monkeypatch.setattr(f"twinlog.ops.verify.command.{setting}", lambda *_: None)
        monkeypatch.setattr("twinlog.ops.verify.command.run_in_spark", run_here)
        monkeypatch.setattr(task, "Loop", lambda: VirtualLoop(loop.world))
        monkeypatch.setattr(task, "_pairs", pairs)
        monkeypatch.setattr(statement, "RANGE_RECORDS", 50)
        monkeypatch.setattr(verification, "VerifyPlanner", partial(verification.VerifyPlanner, connect=connect))
        monkeypatch.setattr(recheck_planner, "RecheckPlanner", partial(recheck_planner.RecheckPlanner, connect=connect))
        made_keys = CliRunner().invoke(app, ["keygen", "--out", str(tmp_path / "proof.key")])
        assert made_keys.exit_code == 0
        yield source, target
        for pair in pairs.values():
            pair.close()


SIGNED = ("--flow", "s:w", "--sign", "proof.key", "--statement", "proof.json")
AGAINST = ("--against", "proof.json", "--key", "proof.key.pub.pem")


def test_a_statement_is_written_and_holds(
    without_spark: tuple[VirtualCluster, VirtualCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = without_spark
    monkeypatch.chdir(tmp_path)
    code, _, err = run(tmp_path, *SIGNED)
    assert (code, "wrote proof.json, proof.json.sig, signed by sha256:" in err) == (0, True), err
    stated = json.loads(Path("proof.json").read_text())
    assert stated["result"] == "equal"
    (flow,) = stated["flows"]
    assert (flow["source"], flow["target"]) == (
        {"alias": "s", "cluster_id": "s"},
        {"alias": "w", "cluster_id": "w"},
    )
    assert [one["records"] for one in flow["partitions"][0]["ranges"]] == [50, 50, 20]
    # A second statement does not replace the first.
    code, _, err = run(tmp_path, *SIGNED)
    assert (code, "proof.json exists, and is kept" in " ".join(err.split())) == (2, True)
    code, out, err = run(tmp_path, *AGAINST, "-o", "json")
    answer = json.loads(out)
    assert (code, answer["equal"], answer["records"]) == (0, True, 120), err
    assert "is right, by the key sha256:" in err
    assert [(one["side"], one["equal"]) for one in answer["partitions"][0]["sides"]] == [
        ("source", 120),
        ("target", 120),
    ]
    # Without the key of the signer it is said whose key it is; without its source only the target is read.
    source.stop(1)
    code, out, err = run(tmp_path, "--against", "proof.json", "--target-only", "--flow", "s:w")
    assert (code, "in the statement itself; --key PUB proves the signer" in err) == (0, True), err
    assert out.splitlines()[-1] == "120 stated records in 1 partition; equal on the target: 120"


def test_a_changed_record_and_a_lost_one_are_named(
    without_spark: tuple[VirtualCluster, VirtualCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = without_spark
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path, *SIGNED)[0] == 0
    target.log("s.t").cut(0)
    put(target, "s.t", [*some(120)[:70], made(70, b"other"), *some(120)[71:], made(7, b"newer")])
    source.log("t").delete_before(30)
    code, out, _ = run(tmp_path, *AGAINST)
    assert code == 1
    assert "TW-VERIFY-05: t-0: target differs from the statement in 1 range, first at offsets 50 to 99: 50" in out
    assert "TW-VERIFY-06: t-0: source lacks 30 records of the statement, deleted by retention; not compared" in out
    assert out.splitlines()[1].split()[-2:] == ["1", "different"]
    # What cannot be read is not equal.
    target.topics.delete("s.t")
    code, out, _ = run(tmp_path, *AGAINST)
    assert (code, "TW-VERIFY-03: t-0 was not compared: cluster w: s.t-0 is gone" in out) == (1, True)


def test_an_altered_statement_and_other_clusters_are_refused_before_anything_is_read(
    without_spark: tuple[VirtualCluster, VirtualCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path, *SIGNED)[0] == 0
    path, content = Path("proof.json"), json.loads(Path("proof.json").read_text())
    content["flows"][0]["target"]["cluster_id"] = "another"
    for file, data in statement.signed_files(path, content, SigningKey.read(Path("proof.key"))).items():
        file.write_bytes(data)
    code, out, err = run(tmp_path, *AGAINST)
    assert (code, out) == (1, "")
    assert "TW-VERIFY-07: cluster w has the id w, and the statement is about w with the id another" in err
    Path("proof.json").write_bytes(Path("proof.json").read_bytes().replace(b": 120", b": 121"))
    for words in (AGAINST, AGAINST[:2]):
        code, out, err = run(tmp_path, *words)
        assert (code, out) == (1, "")
        assert err.startswith("twinlog: TW-VERIFY-04: the signature proof.json.sig does not fit proof.json: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sign", "proof.key"), "--sign KEY and --statement PATH come together"),
        (("--statement", "proof.json"), "--sign KEY and --statement PATH come together"),
        (("--key", "proof.key.pub.pem"), "it counts only with --against"),
        (("--target-only",), "it counts only with --against"),
        ((*AGAINST, "--topic", "t"), "--against has the ranges of its statement: leave it out"),
        ((*AGAINST, "--flow", "x:w"), "the statement has no flow x->w; it has s->w"),
        (("--sign", "proof.key.pub.pem", "--statement", "other.json"), "has no private key in PEM"),
        (("--sign", "proof.key", "--statement", "none/other.json"), "none refuses new files"),
    ],
)
def test_wrong_options_of_a_statement_are_refused(
    without_spark: tuple[VirtualCluster, VirtualCluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if "--against" in words:
        assert run(tmp_path, *SIGNED)[0] == 0
    code, out, err = run(tmp_path, *words)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())

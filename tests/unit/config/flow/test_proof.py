"""Which topics are proven, and what a proof cannot go together with."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from tests.unit.config.flow.test_identical_offsets import HEADER, problems
from tests.unit.config.own_code import read
from twinlog.cli.run import _check_options, _proving
from twinlog.config.load import load_file
from twinlog.model.types import TopicName

KEY = "a->b.twinlog.proof"
BASE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


def test_each_topic_may_have_its_own(tmp_path: Path) -> None:
    flow = read(tmp_path, f"{KEY} = true\n{KEY}.logs-.* = false\na->b.twinlog.difference.policy.o.* = stop\n").flows[0]
    names = ("orders", "logs-1", "heartbeats", "a.heartbeats")
    assert [flow.proves(TopicName(name)) for name in names] == [True, False, False, False]
    assert [flow.held_policy("difference", TopicName(name)) for name in ("orders", "logs-1")] == ["stop", "hold"]


def test_by_default_nothing_is_proven(tmp_path: Path) -> None:
    assert not read(tmp_path, "").flows[0].proves(TopicName("orders"))


@pytest.mark.parametrize("line", [f"{KEY} = true\n", f"{KEY}.orders = true\n", "twinlog.proof = TRUE\n"])
def test_a_transform_changes_records_on_purpose(tmp_path: Path, line: str) -> None:
    (text,) = problems(tmp_path, HEADER + line)
    assert "together with a transform" in text
    assert problems(tmp_path, HEADER + line.lower().replace("true", "false")) == []


def test_a_run_may_prove_all_of_its_flows(tmp_path: Path) -> None:
    for more, proves in (("", True), (f"{KEY} = false\n", True), (HEADER, False)):
        file = tmp_path / "mm2.properties"
        file.write_text(BASE + more, "utf-8")
        (flow, *_) = _proving(lambda file=file: load_file(file)).config.flows  # type: ignore[misc]
        assert flow.proves(TopicName("orders")) is proves


def test_a_resource_has_the_key_alone() -> None:
    with pytest.raises(typer.BadParameter, match=r"twinlog\.proof"):
        _check_options(False, None, prove=True)
    _check_options(False, None, prove=False)

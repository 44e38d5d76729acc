"""Whole files: each `cases/*.properties` comes to what the JSON beside it holds.

A JSON holds either `problems`, or `clusters`, `warnings` and `flows`: per enabled flow the settings that matter to the
case, by dotted path; and perhaps `heartbeats`, the names of the flows that write nothing else.
"""

from __future__ import annotations

import json
import pickle
from operator import attrgetter
from pathlib import Path

import pytest

from tests.unit.config.said import said
from twinlog.config import load
from twinlog.errors import ConfigError

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.stem for path in CASES.glob("*.properties"))


@pytest.fixture(autouse=True)
def _in_the_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES)
    monkeypatch.delenv("TWINLOG_TEST_NO_SUCH_VARIABLE", raising=False)


def test_every_file_has_an_expectation() -> None:
    assert NAMES
    assert sorted(path.stem for path in CASES.glob("*.json")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str) -> None:
    expected = json.loads((CASES / f"{name}.json").read_text("utf-8"))
    if "problems" in expected:
        with pytest.raises(ConfigError) as caught:
            load(f"{name}.properties")
        assert list(said(caught.value.problems)) == expected["problems"]
        return
    config = load(f"{name}.properties")
    assert list(config.clusters) == expected["clusters"]
    assert list(said(config.warnings)) == expected["warnings"]
    enabled = [flow for flow in config.flows if flow.enabled]
    assert [flow.name for flow in enabled] == list(expected["flows"])
    if "heartbeats" in expected:
        assert [flow.name for flow in config.flows if not flow.enabled] == expected["heartbeats"]
    for flow in enabled:
        settings = expected["flows"][flow.name]
        found = {path: attrgetter(path)(flow) for path in settings}
        assert {path: list(value) if isinstance(value, tuple) else value for path, value in found.items()} == settings


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_shows(name: str) -> None:
    try:
        shown = repr(load(f"{name}.properties"))
    except ConfigError as error:
        shown = str(error)
    for secret in ("mirrormaker1-secret", "from-a-file", "top-secret"):
        assert secret not in shown


def test_settings_travel_to_tasks() -> None:
    config = load("sasl.properties")
    assert pickle.loads(pickle.dumps(config)) == config


def test_task_numbers_stand_in_the_client_ids() -> None:
    flow = load("first_example.properties").flows[0].for_task(3)
    assert flow.consumer.client.client_id == "primary->secondary|MirrorSourceConnector-3|replication-consumer"
    assert flow.producer.client.client_id == "connector-producer-MirrorSourceConnector-3"
    named = load("precedence.properties").flows[0].for_task(3)
    assert named.consumer.client.client_id == "reader|a->b|MirrorSourceConnector-3|replication-consumer"
    assert named.producer.client.client_id == "writer"


def test_only_flows_to_the_clusters_asked_for() -> None:
    config = load("data_centers.properties", ["west-1", "west-2"])
    assert [flow.name for flow in config.flows if flow.enabled] == [
        "west-1->west-2",
        "west-2->west-1",
        "east-1->west-1",
    ]
    assert [flow.name for flow in config.flows if not flow.enabled] == ["east-1->west-2"]


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        (["south-1"], "--clusters: 'south-1' is invalid; write aliases that clusters names: west-1, west-2, east-1"),
        (["West-1", "west-1"], "--clusters: 'West-1'"),
    ],
)
def test_an_unknown_alias_is_refused(clusters: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load("data_centers.properties", clusters)
    assert words in str(caught.value)


def test_where_no_enabled_flow_leads_heartbeats_are_written() -> None:
    config = load("first_example.properties", ["primary"])
    assert [(flow.name, flow.enabled) for flow in config.flows] == [("secondary->primary", False)]
    assert (
        said(config.warnings)[-1]
        == "first_example.properties: all flows to primary are off; only heartbeats are written there"
    )


def test_nothing_left_to_run_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(Path("first_example.properties").read_text() + "\nemit.heartbeats.enabled = false\n")
    with pytest.raises(ConfigError) as caught:
        load(file, ["primary"])
    assert [problem.key for problem in caught.value.problems] == ["--clusters"]


@pytest.mark.parametrize(
    ("more", "flows"),
    [
        ("", None),
        ("emit.heartbeats.interval.seconds = -1\n", None),
        ("emit.heartbeats.enabled = false\n", None),
        ("emit.heartbeats.enabled = true\n", ["a->b", "b->a"]),
        ("emit.heartbeats.enabled = false\na->b.emit.heartbeats.enabled = true\n", ["a->b"]),
        ("a->b.emit.heartbeats.enabled = false\n", ["b->a"]),
    ],
)
def test_heartbeats_alone_must_be_asked_for(tmp_path: Path, more: str, flows: list[str] | None) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\n{more}")
    if flows is None:
        with pytest.raises(ConfigError, match=r"all flows are off.*write emit\.heartbeats\.enabled = true"):
            load(file)
        return
    config = load(file)
    assert [(flow.name, flow.enabled) for flow in config.flows] == [(name, False) for name in flows]
    assert len(said(config.warnings)) == 1


def test_a_flow_left_out_needs_no_servers(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = a, b, c\nb.bootstrap.servers = b:1\nc.bootstrap.servers = c:1\n"
        "a->b.enabled = true\nb->c.enabled = true\n"
    )
    flows = load(file, ["c"]).flows
    assert [flow.name for flow in flows] == ["b->c", "a->c"]
    assert flows[1].source_admin.client.bootstrap_servers == ()


def test_a_file_that_cannot_be_read() -> None:
    with pytest.raises(ConfigError) as caught:
        load("no-such-file.properties")
    assert "a readable properties file" in str(caught.value)

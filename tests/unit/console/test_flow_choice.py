"""Every command takes the same flows for `--flow`, and says which there are where there is no such flow."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import typer

from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.console.flow_files import FlowsOfFile
from twinlog.console.options import at_work, between, chosen
from twinlog.errors import TwinlogError
from twinlog.ops.switchover.command import flows_between
from twinlog.settings.flow import FlowSettings
from twinlog.ui.sources import ConsoleSources

IDLE = replace(SETTINGS, source="b", target="a", enabled=False)
SOURCE = replace(SETTINGS, kind="source", connector_name="copy")
FOLLOWS = replace(SETTINGS, kind="checkpoint", connector_name="follow")
BEATS = replace(SETTINGS, kind="heartbeat", connector_name="beat", enabled=False)
STRIMZI = replace(SOURCE, connector_name="a->b.MirrorSourceConnector")


def test_flows_at_work_are_enabled_ones_and_connectors() -> None:
    assert at_work([SETTINGS, IDLE, BEATS]) == [SETTINGS, BEATS]
    assert chosen([SETTINGS, IDLE, BEATS], None) == [SETTINGS, BEATS]


def test_a_flow_is_named_by_its_ends_and_a_connector_by_its_name_too() -> None:
    assert chosen([SETTINGS, IDLE], "a->b") == [SETTINGS]
    assert chosen([SOURCE, FOLLOWS, BEATS], "a->b") == [SOURCE, FOLLOWS, BEATS]
    assert chosen([SOURCE, FOLLOWS, BEATS], "follow") == [FOLLOWS]
    assert between([SOURCE, FOLLOWS, IDLE], "a", "b") == [SOURCE, FOLLOWS]
    assert between([SOURCE, FOLLOWS, IDLE], "b", "a") == []


@pytest.mark.parametrize("flow", [SETTINGS, SOURCE, STRIMZI])
def test_the_form_of_a_name_that_a_message_prints_can_be_typed(flow: FlowSettings) -> None:
    assert ">" not in flow.as_option
    assert chosen([flow], flow.as_option) == [flow]


def test_an_idle_flow_counts_only_where_it_is_asked_for_by_name() -> None:
    assert chosen([SETTINGS, IDLE], "b->a", idle=True) == [IDLE]
    assert chosen([SETTINGS, IDLE], None, idle=True) == [SETTINGS]


@pytest.mark.parametrize(
    ("flows", "name", "said"),
    [
        ([SETTINGS, IDLE], "a->c", "there is no flow a->c; the file has a:b"),
        ([SETTINGS, IDLE], "b->a", "the file has a:b; b->a has heartbeats only, without b->a.enabled = true"),
        ([SOURCE, FOLLOWS], "x", "there is no flow x; the file has copy, follow"),
        ([STRIMZI], "x", "there is no flow x; the file has a:b.MirrorSourceConnector"),
        ([IDLE], None, "it has no flow that is enabled"),
    ],
)
def test_what_there_is_is_named_instead(flows: list[object], name: str | None, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"{re.escape(said)}$"):
        chosen(flows, name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("b", "a", "are --from and --to the wrong way round? The file has a->b; else write b->a.enabled = true"),
        ("a", "a", "--from and --to are both a"),
        ("a", "c", "--to c: the clusters of the file are a, b"),
    ],
)
def test_clusters_of_a_switchover_that_cannot_be_meant(source: str, target: str, said: str) -> None:
    with pytest.raises(TwinlogError, match=re.escape(said)):
        flows_between([SETTINGS, IDLE], source, target)


def test_a_switchover_takes_the_connectors_between_its_clusters() -> None:
    flow, follows, back = flows_between([BEATS, SOURCE, FOLLOWS], "a", "b")
    assert (flow, follows, (back.source, back.target)) == (SOURCE, FOLLOWS, ("b", "a"))


def test_a_switchover_takes_no_connector_by_chance() -> None:
    second = replace(SOURCE, connector_name="copy-2")
    with pytest.raises(TwinlogError, match=r"2 connectors copy a->b: copy, copy-2; .* --wave NAME"):
        flows_between([SOURCE, second, FOLLOWS], "a", "b")
    assert flows_between([SOURCE, second, FOLLOWS], "a", "b", second)[0] is second


def test_each_connector_of_a_worker_has_a_switchover_with_a_journal_of_its_own() -> None:
    second = replace(SOURCE, connector_name="copy-2", topics=("b.*",))
    sources = ConsoleSources([FlowsOfFile([SOURCE, second, FOLLOWS])])
    moved = {}
    for name in ("copy", "copy-2"):
        clusters = sources.open_clusters(name)
        moved[name] = clusters._flow.topics, clusters.ends.wave
        clusters.close()
    assert moved == {"copy": (SOURCE.topics, "copy"), "copy-2": (("b.*",), "copy-2")}
    clusters = ConsoleSources([FlowsOfFile([SOURCE, FOLLOWS])]).open_clusters("copy")
    assert clusters.ends.wave == "", "the journal of `twinlog switchover`"
    clusters.close()

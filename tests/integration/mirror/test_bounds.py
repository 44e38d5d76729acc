"""Internal topics have bounds, whoever made them, so that a start never reads a week of what was overwritten."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from harness.cluster import KafkaCluster
from harness.topics import create_topic, topic_config
from harness.wait import wait_for
from tests.connected_admins import connected_admins
from tests.integration.copying import flow_settings
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.topics import internal_topics
from twinlog.mirror.topics.internal_topics import JOURNALS, OFFSET_SYNCS, POSITIONS, PROGRESS, TopicBounds
from twinlog.mirror.topics.remote_topics import TopicMirror
from twinlog.model.topics import Refusal
from twinlog.model.types import Alias, TopicName
from twinlog.settings.flow import FlowSettings

COMPACT = {"cleanup.policy": "compact"}


@pytest.fixture
def settings(clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str]) -> FlowSettings:
    """A flow with internal topics that no other test has."""
    source, target = Alias(new_name("a")), Alias(new_name("b"))
    return replace(flow_settings(*clusters), source=source, target=target, emit_heartbeats_interval_s=None)


@pytest.fixture
def admins(settings: FlowSettings) -> Iterator[tuple[ClusterAdmin, ClusterAdmin]]:
    with connected_admins(settings) as both:
        yield both


def keep(keeper: TopicBounds, caplog: pytest.LogCaptureFixture, lines: int) -> None:
    """Look until that many lines were logged: a broker may not know a topic yet that its controller has created."""

    def logged() -> bool:
        keeper.set_missing_bounds()
        return len([text for text in caplog.messages if "internal topic" in text]) >= lines

    wait_for(logged, 30, f"{lines} lines about internal topics")


def has_config(cluster: KafkaCluster, topic: str, wanted: dict[str, str]) -> None:
    """A broker follows its controller with a delay."""

    def seen() -> bool:
        found.append(topic_config(cluster, topic))
        return found[-1] == wanted

    found: list[dict[str, str]] = []
    with suppress(TimeoutError):
        wait_for(seen, 30, f"settings of {topic}")
    assert found[-1] == wanted


def test_topics_are_made_with_bounds(
    clusters: tuple[KafkaCluster, KafkaCluster],
    settings: FlowSettings,
    admins: tuple[ClusterAdmin, ClusterAdmin],
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, target = clusters
    TopicMirror(settings, *admins).create_internal_topics()
    has_config(target, settings.positions_topic, {**COMPACT, **POSITIONS})
    has_config(target, f"mm2-twinlog-offsets.{settings.source}.internal", {**COMPACT, **JOURNALS})
    has_config(
        target,
        f"mm2-twinlog-progress.{settings.source}.internal",
        {"cleanup.policy": "delete", "retention.ms": "3600000", **PROGRESS},
    )
    has_config(source, settings.offset_syncs_topic, {**COMPACT, **OFFSET_SYNCS})
    # Then there is nothing to be changed.
    caplog.set_level(logging.INFO)
    TopicBounds(settings, *admins).set_missing_bounds()
    assert [text for text in caplog.messages if "internal topic" in text] == []


def test_existing_topics_get_bounds_once(
    clusters: tuple[KafkaCluster, KafkaCluster],
    settings: FlowSettings,
    admins: tuple[ClusterAdmin, ClusterAdmin],
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, target = clusters
    checkpoints = f"{settings.source}.checkpoints.internal"
    own = {"segment.bytes": "1048576", "segment.ms": "86400000"}
    create_topic(target, settings.positions_topic, 3, config=COMPACT)
    keeper = TopicBounds(settings, *admins)
    caplog.set_level(logging.INFO)
    keep(keeper, caplog, 1)
    has_config(target, settings.positions_topic, {**COMPACT, **POSITIONS})
    (line,) = [text for text in caplog.messages if "internal topic" in text]
    assert f"internal topic {settings.positions_topic} is kept small from now on: " in line
    assert "segment.bytes 1073741824 -> 2097152" in line
    # One that comes later is seen; what somebody set on it stays, stricter or not, and of what is not is warned.
    caplog.clear()
    create_topic(target, checkpoints, config={**COMPACT, **own})
    keep(keeper, caplog, 2)
    has_config(target, checkpoints, {**COMPACT, **JOURNALS, **own})
    keeper.set_missing_bounds()
    warned, changed = [text for text in caplog.messages if "internal topic" in text]
    assert "it has segment.ms=86400000 of its own, which is left alone; to bound it: kafka-configs.sh" in warned
    assert warned.endswith(f"--entity-name {checkpoints} --add-config segment.ms=600000")
    assert f"internal topic {checkpoints} is kept small from now on: " in changed


@pytest.mark.parametrize("code", [Code.TOPIC_AUTHORIZATION_FAILED, Code.POLICY_VIOLATION])
def test_a_cluster_that_does_not_let_it_happen_is_only_warned_of(
    clusters: tuple[KafkaCluster, KafkaCluster],
    settings: FlowSettings,
    admins: tuple[ClusterAdmin, ClusterAdmin],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    code: Code,
) -> None:
    _, target = clusters
    create_topic(target, settings.positions_topic, 3, config=COMPACT)

    async def refuse(_: object, changes: dict[TopicName, object]) -> dict[TopicName, Refusal]:
        return dict.fromkeys(changes, Refusal(code, "not here"))

    monkeypatch.setattr(internal_topics, "alter_configs", refuse)
    keeper = TopicBounds(settings, *admins)
    keep(keeper, caplog, 1)
    keeper.set_missing_bounds()
    (line,) = [text for text in caplog.messages if "internal topic" in text]
    why = f"lacks ALTER_CONFIGS on topic {settings.positions_topic}, needed for keeping it small"
    assert (why if code == Code.TOPIC_AUTHORIZATION_FAILED else "not here") in line
    command, _, wanted = line.rpartition(" --add-config ")
    assert command.endswith(f"--entity-name {settings.positions_topic}")
    assert dict(one.split("=") for one in wanted.split(",")) == POSITIONS

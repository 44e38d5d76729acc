"""Where no transform may route records to: topics of flows, and no topic of a user."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.errors import TransformError
from twinlog.model.topic_names import HeartbeatNames
from twinlog.model.types import Alias
from twinlog.settings.transform import SmtChain, SmtStage, TransformSettings
from twinlog.transforms.loader import check_topic, check_within_cluster

NAMES = HeartbeatNames(".", frozenset((Alias("east"), Alias("west"))))


@pytest.mark.parametrize("name", ["heartbeats", "east.heartbeats", "west.east.heartbeats", "mm2-x.internal", "__x"])
def test_topics_of_flows_take_no_routed_records(name: str) -> None:
    with pytest.raises(TransformError, match=f"^it routes records to {name}"):
        check_topic(name, "orders", NAMES, same_cluster=False)


@pytest.mark.parametrize("name", ["device.heartbeats", "east.device.heartbeats", "orders"])
def test_a_topic_of_a_user_does(name: str) -> None:
    check_topic(name, "orders", NAMES, same_cluster=False)
    check_topic(name, "t", NAMES, same_cluster=True)


def test_within_one_cluster_a_function_routes_to_copies_of_its_flow_alone() -> None:
    settings = replace(flow("east", "west", "default"), transform=TransformSettings("m:f"))
    check_within_cluster("east.orders.20240101", settings)
    with pytest.raises(TransformError, match=r"within a cluster .* names that begin east\. are its own copies"):
        check_within_cluster("archive", settings)


def test_within_one_cluster_the_driver_has_looked_at_routes_by_names_alone() -> None:
    router = SmtStage("r", "RegexRouter", "", ())
    settings = replace(flow("east", "west", "default"), transform=TransformSettings(smts=SmtChain((router,))))
    check_within_cluster("archive", settings)

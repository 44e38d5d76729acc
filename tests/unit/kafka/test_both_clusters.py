"""A flow has connections to both of its clusters, or to none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from twinlog.kafka.admin.cluster import ClusterAdmin, both_clusters
from twinlog.settings.client import AdminSettings, ClientSettings
from twinlog.settings.flow import FlowSettings

EAST, WEST = (ClientSettings((f"{name}:9092",)) for name in ("east", "west"))
FLOW = cast(
    FlowSettings,
    SimpleNamespace(
        source="east", target="west", source_admin=AdminSettings(client=EAST), target_admin=AdminSettings(client=WEST)
    ),
)


class Opened:
    def __init__(self) -> None:
        self.open: list[tuple[str, ClientSettings]] = []

    def connect(self, alias: str, settings: ClientSettings) -> ClusterAdmin:
        one = alias, settings
        self.open.append(one)
        made: Any = SimpleNamespace(close=lambda: self.open.remove(one))
        return cast(ClusterAdmin, made)


def test_each_cluster_has_its_own_login() -> None:
    opened = Opened()
    both_clusters(FLOW, opened.connect)
    assert opened.open == [("east", EAST), ("west", WEST)]


def test_without_a_thread_for_the_target_nothing_stays_open() -> None:
    opened = Opened()

    def connect(alias: str, settings: ClientSettings) -> ClusterAdmin:
        if alias == "west":
            raise RuntimeError("can't start new thread")
        return opened.connect(alias, settings)

    with pytest.raises(RuntimeError):
        both_clusters(FLOW, connect)
    assert opened.open == []

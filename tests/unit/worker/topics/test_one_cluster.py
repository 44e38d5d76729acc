"""A flow whose two aliases stand for one cluster: it copies each topic once, beside it, and nothing goes round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.unit.worker.topics.refreshing import World
from twinlog.errors import RefusedError
from twinlog.settings.flow import PolicyName
from twinlog.settings.transform import SmtChain, SmtStage, TransformSettings


class OneCluster(World):
    """`east` and `west` are one."""

    def target_of(self, loop: VirtualLoop) -> VirtualCluster:
        return self.source


@contextmanager
def one_cluster(policy: PolicyName = "default", **settings: Any) -> Iterator[OneCluster]:
    with virtual_loop(1) as loop:
        here = OneCluster(loop, policy=policy, **settings)
        try:
            yield here
        finally:
            here.topics.close()
            for admin in here.admins:
                admin.close()


def router(regex: str, replacement: str) -> TransformSettings:
    settings = (("regex", regex), ("replacement", replacement))
    return TransformSettings(smts=SmtChain((SmtStage("r", "RegexRouter", "", settings),)))


def names(here: OneCluster) -> list[str]:
    """Topics of the cluster that no flow keeps for itself."""
    return sorted(name for name, _ in here.source.topics.parts if not name.startswith("mm2"))


def test_each_topic_is_copied_once(caplog: pytest.LogCaptureFixture) -> None:
    with one_cluster() as here:
        here.source.create("orders")
        here.source.create("heartbeats")
        here.topics.check_clusters()
        assert "copies are made beside their topics, as east.orders" in caplog.text
        for _ in range(4):
            here.refresh()
        assert names(here) == ["east.heartbeats", "east.orders", "heartbeats", "orders"]
        assert here.copied == {"orders": 1, "heartbeats": 1}
        here.topics.require_all()
        caplog.clear()
        here.topics.check_clusters()
        assert caplog.text == ""


def test_a_copy_outlives_its_original() -> None:
    """It is kept for that, and no sign of a name that is misread."""
    with one_cluster() as here:
        here.source.create("east.gone")
        here.source.create("orders")
        here.topics.check_clusters()
        here.refresh()
        assert here.copied == {"orders": 1}
        here.topics.require_all()


@pytest.mark.parametrize("policy", ["identity"])
def test_kept_names_are_refused(policy: PolicyName) -> None:
    with one_cluster(policy) as here:
        here.source.create("orders")
        with pytest.raises(
            RefusedError, match=r"east and west are the same cluster .* correct bootstrap\.servers of east"
        ):
            here.topics.check_clusters()


def test_a_route_to_a_topic_that_is_mirrored_leaves_its_origin_out() -> None:
    with one_cluster(transform=router(r"east\.(.*)", "$1-new")) as here:
        here.source.create("orders")
        here.source.create("heartbeats")
        here.topics.check_clusters()
        here.refresh()
        # They are not transformed.
        assert here.copied == {"heartbeats": 1}
        (reason,) = here.topics.left_out.values()
        assert "routes it to orders-new (transforms), a topic of the same cluster that it mirrors as well" in reason


def test_a_route_to_a_topic_that_is_not_mirrored_renames_it() -> None:
    with one_cluster(transform=router(r"east\.(.*)", "$1-new"), topics=("orders",)) as here:
        here.source.create("orders")
        here.topics.check_clusters()
        here.refresh()
        assert here.copied == {"orders": 1}
        assert here.topics.left_out == {}

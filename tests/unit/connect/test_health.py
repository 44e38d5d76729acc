"""A worker that waits for Kafka's workers to leave its group counts as ready only if its file says so."""

from __future__ import annotations

import pytest

from tests.unit.connect.worker.whole_worker import Nowhere, OffsetLog, SlowLog
from tests.unit.worker.connectors.test_validation import WORKER
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect.group.group import StandaloneGroup
from twinlog.connect.group.state import Changed, GroupState
from twinlog.connect.herder import Herder
from twinlog.connect.storage import config_records, status_records
from twinlog.worker.connectors.model import Health
from twinlog.worker.spark_flows import SparkOptions


class TakenGroup(StandaloneGroup):
    """A group with Kafka's workers in it."""

    reason = "its members are of another kind"
    taken = True


def herder_of(more: str) -> Herder:
    config = worker_of(parse_properties(WORKER + more, "worker.properties"), "worker.properties")

    def state(changed: Changed) -> GroupState:
        configs, statuses = (SlowLog(module.decode) for module in (config_records, status_records))
        return GroupState(configs, statuses, OffsetLog(), changed)

    return Herder(config, state, TakenGroup, Nowhere("worker", config.settings.client), SparkOptions())


@pytest.mark.parametrize(
    ("more", "health"), [("", Health.STARTING), ("twinlog.healthy.before.group = true\n", Health.HEALTHY)]
)
def test_a_worker_before_its_group(more: str, health: Health) -> None:
    found = herder_of(more).health()
    assert found.health is health
    if more:
        assert found.message == "Worker waits for its group: its members are of another kind"


def test_the_id_of_a_trouble_comes_first() -> None:
    herder = herder_of("twinlog.healthy.before.group = true\n")
    herder._group.reason = "TW-AUTH-01: the login was refused"  # type: ignore[misc]
    assert herder.health().message == "TW-AUTH-01: Worker waits for its group: the login was refused"
    herder._thread.failure = "TW-WORKER-04: cluster worker has too few brokers"
    assert herder.health().health is Health.UNHEALTHY
    assert herder.health().message.startswith("TW-WORKER-04: The worker has ended: cluster worker has too few")


def test_a_member_is_healthy_either_way() -> None:
    herder = herder_of("twinlog.healthy.before.group = true\n")
    herder._group.taken = False  # type: ignore[misc]
    herder._group.start()
    assert herder.health().message == "Worker has completed startup and is ready to handle requests."

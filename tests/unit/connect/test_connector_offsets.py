"""Which offsets count for a connector that copies to another cluster than the worker's, or names a topic of its own."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.wait import wait_for
from tests.unit.worker.connectors.test_validation import WORKER
from twinlog.clock import SYSTEM
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect import connector_offsets as module
from twinlog.connect.connector_flows import ConnectorFlows
from twinlog.connect.connector_offsets import ConnectorOffsets
from twinlog.connect.group.state import GroupState
from twinlog.connect.storage import config_records, offset_records, status_records
from twinlog.connect.storage.config_records import StoredRecord
from twinlog.connect.storage.record_log import MemoryLog
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.retry import RetryPolicy
from twinlog.worker.connectors.model import ConnectorName, StoredOffset

C = ConnectorName("c")
CONFIG = worker_of(parse_properties(WORKER, "w"), "w")
OWN_SERVER = CONFIG.settings.client.bootstrap_servers[0]
assert CONFIG.settings.group is not None
GROUPS = CONFIG.settings.group.offset_storage.name
WAIT_S = 30.0


def offset(topic: str, number: int | None) -> StoredOffset:
    partition = {"cluster": "a", "partition": 0, "topic": topic}
    return StoredOffset(partition, None if number is None else {"offset": number})


class OffsetLog(MemoryLog[Any]):
    """The worker's own offset topic."""

    def __init__(self) -> None:
        super().__init__(offset_records.decode)
        self.news: list[StoredRecord] = []

    def append(self, records: Iterable[StoredRecord]) -> None:
        self.news += records

    def read(self) -> list[Any]:
        news, self.news = self.news, []
        return self.append_and_read(news)


class Target:
    """What stands on the target, by topic, in the place of its connections, readers and topics."""

    def __init__(self) -> None:
        self.topics_: dict[str, list[StoredRecord]] = defaultdict(list)
        self.error: ClusterError | None = None
        self.open = 0
        self.may_read = False
        self.client = self

    def __call__(self, *_: object) -> Target:
        self.open += 1
        return self

    def append_only_while(self, allowed: Callable[[], bool], *, reads: bool = False) -> None:
        self.may_read = reads or allowed()

    def connect(self) -> None:
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.open -= 1

    def topics(self) -> Iterable[str]:
        return self.topics_

    def reader(self, _: object, topic: str, **__: object) -> Any:
        if not self.may_read:
            raise ClusterError("its connections for records are silent")
        records = [(None, SimpleNamespace(key=key, value=value)) for key, value in self.topics_.get(topic, [])]
        return SimpleNamespace(read=lambda: iter(records))

    def topic(self, _: object, topic: Any, *__: object) -> Any:
        return SimpleNamespace(ensure=lambda: None, append=self.topics_[topic.name].extend)

    def keeps(self, topic: str, *offsets: StoredOffset) -> None:
        self.topics_[topic] += [offset_records.encode(C, one) for one in offsets]


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    made = Target()
    monkeypatch.setattr(module, "TopicReader", made.reader)
    monkeypatch.setattr(module, "StateTopic", made.topic)
    monkeypatch.setattr(module, "CONNECTOR_POSITIONS", RetryPolicy(0.01, 0.01))
    yield made
    assert made.open == 0


@pytest.fixture
def make(target: Target) -> Callable[..., tuple[ConnectorOffsets, ConnectorFlows, GroupState]]:
    """Makes the offsets of a worker with one source connector, of which Kafka's worker left `left`."""

    def make(*left: StoredOffset, **settings: str) -> tuple[ConnectorOffsets, ConnectorFlows, GroupState]:
        state = GroupState(
            MemoryLog(config_records.decode), MemoryLog(status_records.decode), OffsetLog(), lambda changes: None
        )
        config = {
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": "a",
            "source.cluster.bootstrap.servers": "a:1",
            "target.cluster.bootstrap.servers": "elsewhere:1",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        state.put(C, config)
        state.put_offsets(C, left)
        flows = ConnectorFlows(CONFIG, state)
        return ConnectorOffsets(CONFIG, state, flows, SYSTEM, lambda: True, cast(Any, target)), flows, state

    return make


Make = Callable[..., tuple[ConnectorOffsets, ConnectorFlows, GroupState]]


def begin(offsets: ConnectorOffsets, flows: ConnectorFlows) -> None:
    flow, _ = flows.build(C)
    assert flow is not None

    def may() -> bool:
        with suppress(ClusterError):
            return offsets.may_begin(flow)
        return False

    wait_for(may, WAIT_S, "the connector may begin", every_s=0.01)


def test_what_kafkas_worker_left_counts_once(make: Make, target: Target) -> None:
    offsets, flows, state = make(offset("x", 41), offset("y", 7))
    assert offsets.read_offsets(C) == [offset("x", 41), offset("y", 7)]
    begin(offsets, flows)
    assert target.topics_[GROUPS] == [offset_records.encode(C, one) for one in (offset("x", 41), offset("y", 7))]
    # A copier goes on there; what is on the worker's cluster counts no more, however far it is.
    target.keeps(GROUPS, offset("x", 43), offset("y", 3))
    again = ConnectorOffsets(CONFIG, state, flows, SYSTEM, lambda: True, cast(Any, target))
    begin(again, flows)
    assert again.read_offsets(C) == [offset("x", 43), offset("y", 3)]
    assert len(target.topics_[GROUPS]) == 4


def test_what_kafkas_worker_left_before_it_copied_exactly_once_counts_for_what_it_copied_nothing_of_since(
    make: Make, target: Target
) -> None:
    target.keeps(GROUPS, offset("x", 50), offset("z", 3), offset("z", None))
    offsets, flows, _ = make(offset("x", 41), offset("y", 7), offset("z", 2))
    assert offsets.read_offsets(C) == [offset("x", 50), offset("y", 7)]
    begin(offsets, flows)
    assert target.topics_[GROUPS][3:] == [offset_records.encode(C, offset("y", 7))]
    assert offsets.read_offsets(C) == [offset("x", 50), offset("y", 7)]


def test_what_is_deleted_is_not_taken_over_again(make: Make, target: Target) -> None:
    offsets, flows, state = make(offset("x", 41), offset("y", 7))
    # It never began here.
    offsets.replace_offsets(C, [offset("x", None)])
    assert offsets.read_offsets(C) == [offset("y", 7)]
    # The marker of the deletion is compacted away.
    target.topics_[GROUPS] = []
    begin(offsets, flows)
    assert offsets.read_offsets(C) == state.offsets(C) == [offset("y", 7)]


def test_only_a_source_connector_elsewhere_is_looked_for_there(make: Make, target: Target) -> None:
    target.error = ClusterError("it does not answer")
    offsets, flows, state = make(offset("x", 41), target_cluster_bootstrap_servers=OWN_SERVER)
    begin(offsets, flows)
    offsets.replace_offsets(C, [offset("x", 40)])
    assert offsets.read_offsets(C) == state.offsets(C) == [offset("x", 40)]


def test_a_topic_of_its_own_comes_first_and_is_reset_with_the_one_before(make: Make, target: Target) -> None:
    target.keeps(GROUPS, offset("x", 1), offset("y", 2))
    target.keeps("own", offset("x", 9))
    offsets, _, _ = make(offsets_storage_topic="own")
    assert offsets.read_offsets(C) == [offset("x", 9), offset("y", 2)]
    offsets.replace_offsets(C, [offset("x", None), offset("y", None)])
    assert offsets.read_offsets(C) == []
    target.topics_["own"] = []
    assert offsets.read_offsets(C) == []


def test_a_worker_outside_its_group_shows_offsets(make: Make, target: Target) -> None:
    _, flows, state = make(offset("x", 41))
    target.keeps(GROUPS, offset("y", 7))
    offsets = ConnectorOffsets(CONFIG, state, flows, SYSTEM, lambda: False, cast(Any, target))
    assert offsets.read_offsets(C) == [offset("x", 41), offset("y", 7)]


@pytest.mark.parametrize("kind", [ClusterError, RefusedError])
def test_what_keeps_it_from_beginning_is_told(make: Make, target: Target, kind: type[ClusterError]) -> None:
    offsets, flows, _ = make(offset("x", 41))
    target.error = kind("it does not answer")
    flow, _ = flows.build(C)
    assert flow is not None
    told: list[ClusterError] = []

    def tells() -> bool:
        try:
            assert not offsets.may_begin(flow)
        except ClusterError as error:
            told.append(error)
        return len(told) == 2

    wait_for(tells, WAIT_S, "it tells the reason of two tries", every_s=0.01)
    assert {type(error) for error in told} == {kind}
    with pytest.raises(ClusterError):
        offsets.read_offsets(C)
    target.error = None
    begin(offsets, flows)
    assert json.loads(target.topics_[GROUPS][0][1] or b"") == {"offset": 41}


def test_positions_of_a_connector_that_cannot_be_used_are_left_alone(make: Make) -> None:
    offsets, _, state = make(offset("x", 41), tasks_max="many")
    with pytest.raises(RefusedError, match="fix the configuration first"):
        offsets.replace_offsets(C, [offset("x", None)])
    assert offsets.read_offsets(C) == state.offsets(C) == [offset("x", 41)]

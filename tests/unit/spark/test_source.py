"""What Spark carries from planner to tasks: plain values, so that a task of another version can greet its driver."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition

from twinlog.lease.channel import DriverAddress, LeaseTicket
from twinlog.lease.lease_server import LeaseServer, QueryFlows
from twinlog.lease.leases import Leases
from twinlog.model.types import TopicName, TopicPartition
from twinlog.spark import source as module
from twinlog.spark.settings import local_settings
from twinlog.spark.source import LeaseReader, LeaseSource, source_options
from twinlog.spark.warm_up import SETTINGS

TASKS = tuple(frozenset({TopicPartition(TopicName("t"), number)}) for number in range(2))


@pytest.fixture
def server() -> Iterator[LeaseServer]:
    """A driver with one flow and one query of two tasks."""
    leases = Leases(SETTINGS.name, lambda parts: [], lambda *_: None, lambda *_: None)
    leases.plan(TASKS)
    server = LeaseServer("127.0.0.1", {SETTINGS.name: leases})
    server.bundles["q"] = QueryFlows("q", [leases])
    yield server
    leases.stop(0)
    server.close()


def reader_of(server: LeaseServer) -> LeaseReader:
    reader: LeaseReader = LeaseSource(source_options("q", [SETTINGS], server.address)).streamReader(None)
    return reader


def classes_of(data: bytes) -> set[str]:
    """The classes that somebody needs to unpickle this."""
    found: set[str] = set()

    class Reading(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            found.add(f"{module}.{name}")
            return super().find_class(module, name)

    Reading(io.BytesIO(data)).load()
    return found


def test_each_task_gets_its_share_in_plain_values(server: LeaseServer) -> None:
    reader = reader_of(server)
    end = reader.latestOffset({"lease": 0}, None)
    partitions = reader.partitions({"lease": 0}, end)
    tickets = [LeaseTicket.unpack(plain) for partition in partitions for plain in partition.value]
    assert [(ticket.flow, ticket.lease, ticket.share) for ticket in tickets] == [
        (SETTINGS.name, 1, 0),
        (SETTINGS.name, 1, 1),
    ]
    assert {ticket.address for ticket in tickets} == {server.address}
    assert [ticket.settings() for ticket in tickets] == [SETTINGS, SETTINGS]
    assert classes_of(cloudpickle.dumps(partitions[0])) == {"pyspark.sql.datasource.InputPartition"}
    assert reader.partitions(end, end) == []


def test_a_task_needs_no_class_but_the_readers_own(server: LeaseServer) -> None:
    reader = reader_of(server)
    reader.latestOffset({"lease": 0}, None)
    needed = classes_of(cloudpickle.dumps(reader))
    assert {name for name in needed if name.startswith("twinlog.")} == {"twinlog.spark.source.LeaseReader"}


def test_a_ticket_of_a_later_version_has_more() -> None:
    ticket = LeaseTicket("a->b", DriverAddress("127.0.0.1", 1, b"secret"), 3, 1, b"...")
    assert LeaseTicket.unpack((*ticket.pack(), "and more")) == ticket


def test_a_planner_calls_its_driver_where_it_is_and_tasks_by_its_name() -> None:
    leases = Leases(SETTINGS.name, lambda parts: [], lambda *_: None, lambda *_: None)
    leases.plan(TASKS)
    server = LeaseServer("driver.invalid", {SETTINGS.name: leases}, bind_address="127.0.0.1")
    server.bundles["q"] = QueryFlows("q", [leases])
    try:
        reader = reader_of(server)
        partitions = reader.partitions({"lease": 0}, reader.latestOffset({"lease": 0}, None))
        assert {LeaseTicket.unpack(plain).address.host for one in partitions for plain in one.value} == {
            "driver.invalid"
        }
    finally:
        leases.stop(0)
        server.close()


def test_a_row_for_each_record_and_one_range_for_each_partition(
    server: LeaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task is asked each second; the lag of a partition would count as often."""
    seconds: list[list[tuple[Any, ...]]] = [
        [],
        [("f", 1, 0, "c", "t", 0, 0, 4, 0, 4, 4, 40, 90), ("f", 1, 0, "c", "t", 1, 0, 1, 0, 1, 1, 10, 3)],
        [("f", 1, 0, "c", "t", 0, 4, 9, 4, 9, 5, 50, 80)],
        [],
    ]
    monkeypatch.setattr(module, "copy_under_lease", lambda *_: iter(seconds))
    options = source_options("q", [SETTINGS], server.address, counted=True)
    reader = LeaseSource(options).streamReader(None)
    rows = [row for batch in reader.read(InputPartition(())) for row in batch.column(0).to_pylist()]
    assert rows[:-1] == [None] * 9
    assert [(one["next_source"], one["records"], one["bytes"], one["lag"]) for one in rows[-1]] == [
        (9, 9, 90, 80),
        (1, 1, 10, 3),
    ]
    monkeypatch.setattr(module, "copy_under_lease", lambda *_: iter([[], []]))
    assert list(reader.read(InputPartition(()))) == []


def test_the_jvm_compiles_well_where_each_record_is_a_row() -> None:
    options = [
        local_settings(settings)["spark.driver.extraJavaOptions"]
        for settings in ({}, {"spark.twinlog.rows": "ranges"}, {"spark.twinlog.rows": "records"})
    ]
    assert ["TieredStopAtLevel=1" in one for one in options] == [True, True, False]
    # Records as rows need room for compiled code and for new objects.
    assert ["ReservedCodeCacheSize=96m" in one for one in options] == [False, False, True]
    assert ["-Xmn16m" in one for one in options] == [True, True, False]

"""What Spark carries from planner to tasks: plain values, so that a task of another version can greet its driver."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import cloudpickle

from twinlog.driver.bundle import Bundle
from twinlog.driver.lease_server import LeaseServer
from twinlog.driver.leases import Leases
from twinlog.driver.warm_up import SETTINGS
from twinlog.lease.channel import DriverAddress
from twinlog.lease.ticket import LeaseTicket
from twinlog.model.types import TopicName, TopicPartition
from twinlog.spark.source import LeaseReader, LeaseSource, source_options

TASKS = tuple(frozenset({TopicPartition(TopicName("t"), number)}) for number in range(2))


@pytest.fixture
def server() -> Iterator[LeaseServer]:
    """A driver with one flow and one query of two tasks."""
    leases = Leases(SETTINGS.name, lambda parts: [], lambda *_: None, lambda *_: None)
    leases.plan(TASKS)
    server = LeaseServer("127.0.0.1", {SETTINGS.name: leases})
    server.bundles["q"] = Bundle("q", [leases])
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
    server.bundles["q"] = Bundle("q", [leases])
    try:
        reader = reader_of(server)
        partitions = reader.partitions({"lease": 0}, reader.latestOffset({"lease": 0}, None))
        assert {LeaseTicket.unpack(plain).address.host for one in partitions for plain in one.value} == {
            "driver.invalid"
        }
    finally:
        leases.stop(0)
        server.close()

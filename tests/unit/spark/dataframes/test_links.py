"""Connections that a process keeps for the next task: one that ended by an error does not fail each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from harness.wait import wait_for
from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.settings.client import ProducerSettings
from twinlog.spark.dataframes import writer
from twinlog.spark.dataframes.write_options import read_write_options

NOBODY = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}


@pytest.fixture(autouse=True)
def no_links() -> Iterator[None]:
    yield
    while writer._links:
        writer._links.popitem()[1].close()


def producer_of(**options: str) -> ProducerSettings:
    return read_write_options(NOBODY | {f"kafka.{key}": value for key, value in options.items()}, "batch").producer


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_link_that_ended_by_an_error_is_recreated(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connected(_: ClusterClient, timeout_s: float = 0) -> None:
        """Nobody is there."""

    monkeypatch.setattr(ClusterClient, "connect", connected)
    producer = producer_of()
    first = writer.link_to(producer)
    assert writer.link_to(producer) is first

    def crash(_: Any) -> None:
        raise OSError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(first.loop.net, "_process_events", crash)
        first.loop.call_threadsafe(lambda: None)
        wait_for(lambda: first.loop.ended, 60, "the link has ended")
    assert writer.link_to(producer) is not first


def test_a_cluster_that_does_not_answer_is_given_up_within_the_limit() -> None:
    began = time.monotonic()
    with pytest.raises(ClusterError):
        writer.link_to(producer_of(**{"delivery.timeout.ms": "300"}))
    # Ten times as long on a machine that is busy; one attempt alone took 30 s.
    assert time.monotonic() - began < 10


def test_no_question_lasts_longer_than_rows_may_wait() -> None:
    client = producer_of(**{"delivery.timeout.ms": "5000"}).client
    assert (client.request_timeout_ms, client.default_api_timeout_ms) == (5_000, 5_000)
    client = producer_of().client
    assert (client.request_timeout_ms, client.default_api_timeout_ms) == (30_000, 120_000)

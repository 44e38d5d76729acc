"""Copies with the offsets of their sources change their direction: the reverse flow continues at the same offset."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from harness.produce import numbered, produce
from harness.topics import delete_records, offsets
from tests.integration.copier.identical.test_identical_log_start import wait_until_same_begin
from tests.integration.copier.identical.test_identical_transactions import HOW, require_same, transactions
from tests.integration.copying import SOURCE, CopyFlow

PARTITIONS = 2


class ReverseFlow(CopyFlow):
    """Copies the remote topics of a flow back to its source."""

    def remote(self, topic: str) -> str:
        return topic.removeprefix(f"{SOURCE}.")


@pytest.fixture
def reverse_flow(copy_flow: CopyFlow) -> Iterator[ReverseFlow]:
    with closing(ReverseFlow(copy_flow.target, copy_flow.source)) as flow:
        yield flow


@pytest.mark.scenario
def test_there_and_back_and_there_again(
    copy_flow: CopyFlow,
    reverse_flow: ReverseFlow,
    topic_name: str,
    new_name: Callable[[str], str],
    chance: random.Random,
) -> None:
    """Applications write on one side at a time, with transactions, and a begin that moves."""
    remote = copy_flow.create(topic_name, PARTITIONS)
    ids = [new_name("tx"), new_name("tx")]
    for flow, name in ((copy_flow, topic_name), (reverse_flow, remote)) * 2:
        for number in range(PARTITIONS):
            produce(flow.source, name, numbered(50), partition=number, per_batch=7)
        with transactions(flow.source, name, PARTITIONS, ids, chance):
            child = flow.start_child(name, position_interval_ms=1000, **HOW)
            time.sleep(chance.uniform(2, 3))
            child.kill()
        running = flow.start(name, **HOW)
        flow.wait_until_caught_up(running, name)
        for number in range(PARTITIONS):
            first, _ = offsets(flow.source, name, number)
            delete_records(flow.source, name, first + 10, number)
        wait_until_same_begin(flow, name, PARTITIONS)
        running.release()
        assert running.heard.held == []
        require_same(flow, name, PARTITIONS)


def test_records_that_were_never_copied_hold_the_way_back(
    copy_flow: CopyFlow, reverse_flow: ReverseFlow, topic_name: str
) -> None:
    """The source died with records that the target lacks: their offsets have other records now."""
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(100))
    copy_flow.copy(topic_name, **HOW)
    produce(copy_flow.source, topic_name, numbered(5, start=100))
    for later in (3, 7):
        produce(copy_flow.target, remote, numbered(later, start=1_000))
        running = reverse_flow.start(remote, **HOW)
        held = running.wait_for_held()
        assert (held.reason, held.message_id) == ("diverged", "TW-IDENT-01")
        running.release()
        assert offsets(copy_flow.source, topic_name) == (0, 105)

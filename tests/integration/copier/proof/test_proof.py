"""The proof while records are copied: all roads without an alarm, and faults in the target's own files."""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import google_crc32c
import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import delete_records, offsets
from harness.wait import wait_for
from tests.integration.copier.batches.test_copy_transactions import Transaction
from tests.integration.copying import CopyFlow, RunningCopier
from tests.integration.records import lively
from tests.integration.segments import CODECS, stored_batches
from twinlog.copier.proof.comparing import ProofDifference
from twinlog.copier.proof.partition_proof import PartitionProof
from twinlog.copier.proof.prover import Prover
from twinlog.errors import DifferenceError
from twinlog.model.types import TopicPartition

FOUND_S = 10.0
CRC, CRC_START, HEADER_SIZE = 17, 21, 61


def proof_of(running: RunningCopier, topic: str, partition: int = 0) -> PartitionProof:
    found = running.partition_copy(topic, partition).copied.proof
    assert found is not None
    return found


def wait_proven(flow: CopyFlow, running: RunningCopier, topic: str, partition: int = 0) -> None:
    """Wait until everything that a topic holds now is copied and proven."""
    end = offsets(flow.source, topic, partition)[1]
    running.wait_for_position(topic, end, partition)
    proof = proof_of(running, topic, partition)
    # The last offset of a transactional source is that of a marker, which no copy has.
    at_rest = running.position(topic, partition).next_target
    wait_for(
        lambda: not proof.behind and proof.proven.target >= (at_rest or 0) - 1,
        FOUND_S,
        f"{topic}-{partition} is proven up to {at_rest}, not {proof.proven}",
        every_s=0.01,
    )


@contextmanager
def blind(running: RunningCopier) -> Iterator[None]:
    """The prover reads nothing meanwhile."""
    gate = threading.Event()
    loop = running.copier.proofs._loop
    assert loop is not None

    def wait() -> None:
        gate.wait(60.0)

    loop.call_threadsafe(wait)
    try:
        yield
    finally:
        gate.set()


def noted_everywhere(running: RunningCopier) -> dict[TopicPartition, list[DifferenceError]]:
    """The differences that the copier is told from now on, by source partition."""
    found: dict[TopicPartition, list[DifferenceError]] = {}
    take = running.copier.proofs._take_difference

    def note(source: TopicPartition, difference: ProofDifference) -> None:
        found.setdefault(source, []).append(difference.as_error(source, source))
        take(source, difference)

    running.copier.proofs._take_difference = note  # type: ignore[method-assign]
    return found


def only(found: dict[TopicPartition, list[DifferenceError]]) -> dict[str, DifferenceError]:
    """The differences of topics with a partition each, which have no more than a difference each."""
    assert all(len(many) == 1 for many in found.values()), found
    return {source.topic: many[0] for source, many in found.items()}


@pytest.mark.parametrize(
    "how",
    [{}, {"producer": {"compression_type": "zstd"}}, {"producer": {"merge_batch_bytes": 0}}],
    ids=["as it is and merged", "recompressed", "singly"],
)
def test_all_roads_are_proven(
    copy_flow: CopyFlow, topic_name: str, chance: random.Random, how: dict[str, dict[str, object]]
) -> None:
    copy_flow.create(topic_name)
    for codec in CODECS:
        produce(copy_flow.source, topic_name, lively(50), codec=codec, per_batch=1)
        produce(copy_flow.source, topic_name, lively(chance.randrange(200, 400)), codec=codec, per_batch=7)
        produce(copy_flow.source, topic_name, lively(60, size=9_000), codec=codec, per_batch=40)
    running = copy_flow.start(topic_name, proof=True, **how)
    wait_proven(copy_flow, running, topic_name)
    for codec in CODECS:
        produce(copy_flow.source, topic_name, lively(300), codec=codec, per_batch=chance.randrange(1, 20))
    wait_proven(copy_flow, running, topic_name)
    proven = proof_of(running, topic_name).proven
    assert proven.records == len(consume(copy_flow.target, copy_flow.remote(topic_name)))
    assert (proven.differences, proven.unproved) == (0, 0)
    assert running.copier.tally.differences == {}
    running.release()
    assert running.heard.held == []


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_transactions_are_proven(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str], exactly_once: str
) -> None:
    copy_flow.create(topic_name)
    running = copy_flow.start(
        topic_name, proof=True, exactly_once=exactly_once, consumer={"isolation_level": "read_committed"}
    )
    for number in range(5):
        produce(copy_flow.source, topic_name, numbered(40, start=100 * number), transactional_id=new_name("tx"))
        produce(copy_flow.source, topic_name, numbered(40, start=100 * number + 40))
    wait_for(lambda: proof_of(running, topic_name).proven.records == 400, 30.0, "all is proven", every_s=0.05)
    time.sleep(4)
    assert running.copier.tally.differences == {}
    running.release()
    assert running.heard.held == []


def test_another_form_on_the_target_is_compared_with_the_source(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name, remote_config={"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"})
    running = copy_flow.start(topic_name, proof=True)
    for codec in CODECS:
        produce(copy_flow.source, topic_name, lively(50), codec=codec, per_batch=9)
        wait_proven(copy_flow, running, topic_name)
    assert proof_of(running, topic_name).proven.records == 50 * len(CODECS)
    assert running.copier.tally.differences == {}
    running.release()


def test_deleted_records_are_out_of_the_proof(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(20))
    running = copy_flow.start(topic_name, proof=True)
    wait_proven(copy_flow, running, topic_name)
    with blind(running):
        for _ in range(5):
            produce(copy_flow.source, topic_name, numbered(20))
            copy_flow.wait_until_caught_up(running, topic_name)
        delete_records(copy_flow.target, remote, 90)
    produce(copy_flow.source, topic_name, numbered(20))
    wait_proven(copy_flow, running, topic_name)
    proven = proof_of(running, topic_name).proven
    assert proven.unproved >= 40
    assert running.copier.tally.differences == {}
    running.release()


def test_a_foreign_record_holds_its_partition_alone(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]
) -> None:
    other = new_name("other")
    remote = copy_flow.create(topic_name)
    copy_flow.create(other)
    running = copy_flow.start(topic_name, other, proof=True)
    for name in (topic_name, other):
        produce(copy_flow.source, name, numbered(30))
        wait_proven(copy_flow, running, name)
    begun = time.monotonic()
    produce(copy_flow.target, remote, numbered(1))
    held = running.wait_for_held()
    assert time.monotonic() - begun < FOUND_S
    assert (held.source, held.reason, held.message_id) == ((topic_name, 0), "difference", "TW-PROOF-01")
    assert f"{remote}-0 differs: at offset 30 it has a record of another program" in held.text
    assert "before source offset 30" in held.text
    for name in (topic_name, other):
        produce(copy_flow.source, name, numbered(30, start=30))
    wait_proven(copy_flow, running, other)
    running.release()
    stored = copy_flow.stored(topic_name)
    assert stored is not None
    assert stored.difference == 30

    # After a restart it is held, too, until the difference is accepted.
    running = copy_flow.start(topic_name, proof=True)
    assert running.wait_for_held().reason == "difference"
    running.release()
    running = copy_flow.start(topic_name, proof=True, difference_policy="report")
    wait_proven(copy_flow, running, topic_name)
    running.release()
    assert running.heard.held == []
    assert len(consume(copy_flow.target, remote)) == 61


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_a_foreign_transaction_that_is_open_at_the_begin_is_found_once_it_is_committed(
    copy_flow: CopyFlow, topic_name: str, exactly_once: str
) -> None:
    remote = copy_flow.create(topic_name)
    running = copy_flow.start(topic_name, proof=True, exactly_once=exactly_once)
    produce(copy_flow.source, topic_name, numbered(30))
    wait_proven(copy_flow, running, topic_name)
    running.release()
    first = offsets(copy_flow.target, remote)[1]
    foreign = Transaction(copy_flow.target, remote, topic_name)
    foreign.write("foreign")
    running = copy_flow.start(topic_name, proof=True, exactly_once=exactly_once)
    produce(copy_flow.source, topic_name, numbered(30, start=30))
    running.wait_for_position(topic_name, 60)
    assert running.heard.held == []
    foreign.commit()
    held = running.wait_for_held()
    assert (held.reason, held.message_id) == ("difference", "TW-PROOF-01")
    assert f"{remote}-0 differs: at offset {first} it has a record of another program" in held.text
    running.release()


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_a_foreign_transaction_that_began_under_an_earlier_copier_is_found(
    copy_flow: CopyFlow, topic_name: str, monkeypatch: pytest.MonkeyPatch, exactly_once: str
) -> None:
    """The transaction ends before the prover reads the log."""
    ended = threading.Event()
    connect = Prover._connect

    async def connect_late(prover: Prover) -> None:
        while not ended.is_set():
            await prover._loop.sleep(0.01)
        await connect(prover)

    remote = copy_flow.create(topic_name)
    running = copy_flow.start(topic_name, proof=True, exactly_once=exactly_once)
    produce(copy_flow.source, topic_name, numbered(30))
    wait_proven(copy_flow, running, topic_name)
    first = offsets(copy_flow.target, remote)[1]
    foreign = Transaction(copy_flow.target, remote, topic_name)
    foreign.write("foreign")
    produce(copy_flow.source, topic_name, numbered(30, start=30))
    running.wait_for_position(topic_name, 60)
    running.release()
    monkeypatch.setattr(Prover, "_connect", connect_late)
    running = copy_flow.start(topic_name, proof=True, exactly_once=exactly_once)
    produce(copy_flow.source, topic_name, numbered(30, start=60))
    running.wait_for_position(topic_name, 90)
    foreign.commit()
    ended.set()
    held = running.wait_for_held()
    assert (held.reason, held.message_id) == ("difference", "TW-PROOF-01")
    assert f"{remote}-0 differs: at offset {first} it has a record of another program" in held.text
    running.release()


def edit(flow: CopyFlow, topic: str, number: int, chance: random.Random, *, mend: bool, partition: int = 0) -> int:
    """Turn a bit of a stored batch of the remote topic, in the broker's own file; returns the batch's first offset.

    With `mend` its checksum is right again, so that only a comparison finds it.
    """
    batches = stored_batches(flow.target, topic, partition)
    start = sum(batch.size for batch in batches[:number])
    (segment,) = (flow.target.brokers[1].data / f"{topic}-{partition}").glob("*.log")
    with segment.open("r+b") as file:
        file.seek(start)
        data = bytearray(file.read(batches[number].size))
        (base,) = struct.unpack_from(">q", data, 0)
        place = chance.randrange(HEADER_SIZE, len(data))
        data[place] ^= 1 << chance.randrange(8)
        if mend:
            struct.pack_into(">I", data, CRC, google_crc32c.value(bytes(data[CRC_START:])))
        file.seek(start)
        file.write(data)
    return int(base)


@pytest.mark.parametrize("mend", [True, False], ids=["right checksum", "wrong checksum"])
def test_a_turned_bit_in_the_targets_file_is_found(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str], chance: random.Random, mend: bool
) -> None:
    names = [topic_name, new_name("second"), new_name("third"), new_name("whole")]
    for name in names:
        copy_flow.create(name)
    running = copy_flow.start(*names, proof=True, difference_policy="report", producer={"merge_batch_bytes": 0})
    found = noted_everywhere(running)
    for name in names:
        produce(copy_flow.source, name, numbered(20), per_batch=5)
        wait_proven(copy_flow, running, name)
    staged = {}
    with blind(running):
        # What is on its way to the prover comes first.
        for name in names:
            produce(copy_flow.source, name, numbered(20), per_batch=5)
            copy_flow.wait_until_caught_up(running, name)
        for name in names:
            produce(copy_flow.source, name, numbered(100, size=300), per_batch=5)
            copy_flow.wait_until_caught_up(running, name)
        for name in names[:-1]:
            staged[name] = edit(copy_flow, copy_flow.remote(name), chance.randrange(9, 27), chance, mend=mend)
    begun = time.monotonic()
    wait_for(lambda: only(found).keys() == staged.keys(), FOUND_S, "all are found", every_s=0.01)
    assert time.monotonic() - begun < FOUND_S
    for name, base in staged.items():
        error = only(found)[name]
        assert error.kind == ("changed" if mend else "damaged")
        assert base <= error.target_offset < base + 5
        assert error.source_offset == error.target_offset
    for name in names:
        wait_proven(copy_flow, running, name)
    running.release()
    assert running.heard.held == []
    assert len(running.events("difference")) == len(staged)


def test_the_proof_goes_on_after_a_crash(copy_flow: CopyFlow, topic_name: str) -> None:
    copy_flow.create(topic_name)
    for number in range(3):
        produce(copy_flow.source, topic_name, numbered(500, start=500 * number), per_batch=3)
        child = copy_flow.start_child(topic_name, proof=True, difference_policy="stop")
        wait_for(
            lambda number=number: offsets(copy_flow.target, copy_flow.remote(topic_name))[1] > 500 * number,  # type: ignore[misc]
            60.0,
            "something is copied",
            every_s=0.05,
        )
        child.kill()
    running = copy_flow.start(topic_name, proof=True)
    wait_proven(copy_flow, running, topic_name)
    produce(copy_flow.source, topic_name, numbered(10))
    wait_proven(copy_flow, running, topic_name)
    time.sleep(4)
    assert running.copier.tally.differences == {}
    running.release()
    assert running.heard.held == []


@pytest.fixture
def frail() -> Iterator[KafkaCluster]:
    with KafkaCluster("forgetful", sasl=False, heap="256m") as cluster:
        yield cluster


def rewrite(
    cluster: KafkaCluster, topic: str, change: Callable[[list[bytes]], list[bytes]], partition: int = 0
) -> None:
    """Change the batches in the file of a remote topic, whose broker was killed: it reads all of them again."""
    sizes = [batch.size for batch in stored_batches(cluster, topic, partition)]
    (segment,) = (cluster.brokers[1].data / f"{topic}-{partition}").glob("*.log")
    data, batches = segment.read_bytes(), []
    for size in sizes:
        batches.append(data[:size])
        data = data[size:]
    segment.write_bytes(b"".join(change(batches)))
    for snapshot in segment.parent.glob("*.snapshot"):
        snapshot.unlink()


def without(batches: list[bytes]) -> list[bytes]:
    """Without the batch before the last one."""
    return [*batches[:-2], batches[-1]]


def twice(batches: list[bytes]) -> list[bytes]:
    """The last batch again, at the next offsets."""
    last = bytearray(batches[-1])
    base, count = struct.unpack_from(">q", last, 0)[0], struct.unpack_from(">i", last, 57)[0]
    struct.pack_into(">q", last, 0, base + count)
    return [*batches, bytes(last)]


def test_a_dropped_and_a_doubled_batch_are_found_after_the_recovery_of_a_broker(
    source_cluster: KafkaCluster, frail: KafkaCluster
) -> None:
    flow = CopyFlow(source_cluster, frail)
    with closing(flow):
        dropped, doubled, _ = names = [f"proof-{kind}" for kind in ("dropped", "doubled", "whole")]
        for name in names:
            flow.create(name)
        running = flow.start(*names, proof=True, difference_policy="report", producer={"merge_batch_bytes": 0})
        found = noted_everywhere(running)
        for name in names:
            produce(flow.source, name, numbered(20), per_batch=5)
            wait_proven(flow, running, name)
        with blind(running):
            for _ in range(2):
                for name in names:
                    produce(flow.source, name, numbered(20), per_batch=5)
                    flow.wait_until_caught_up(running, name)
            frail.kill()
            rewrite(frail, flow.remote(dropped), without)
            rewrite(frail, flow.remote(doubled), twice)
            frail.restart()
        wait_for(lambda: only(found).keys() == {dropped, doubled}, 2 * FOUND_S, "both are found", every_s=0.01)
        assert [(only(found)[name].kind, only(found)[name].target_offset) for name in (dropped, doubled)] == [
            ("missing", 50),
            ("doubled", 60),
        ]
        assert [only(found)[name].source_offset for name in (dropped, doubled)] == [50, 60]
        for name in names:
            produce(flow.source, name, numbered(20), per_batch=5)
            wait_proven(flow, running, name)
        assert only(found).keys() == {dropped, doubled}
        running.release()

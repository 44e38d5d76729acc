"""Writes markers of empty transactions: each takes an offset of a log, and consumers leave it out.

The request WriteTxnMarkers belongs to brokers; since Kafka 3.8 a client with ALTER on the cluster may send it
(KIP-1037; `abortTransaction` of Kafka's Admin does). A broker writes the markers of a request in order, and answers
once all replicas in sync have them. A marker lacks a sequence number: a repeated request writes further markers. So a
caller that lacks an answer looks at the end of the log before it repeats the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Signal
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.model.types import TopicName, TopicPartition

MOST_MARKERS = 1_000
"""The most markers of a partition in a request: a broker appends each of them by itself."""

MOST_AT_ONCE = 10_000
"""The most markers of a request, which a broker writes in about a second: a request without an answer must end before
its logs seem to be at rest."""

_SINCE = 1
"""The version of the request, since Kafka 2.8."""

_TRANSLATE = "set twinlog.offsets = translated for the topic"

PURPOSE = "writing markers at offsets of the source that lack a record (before Kafka 3.8 CLUSTER_ACTION instead)"

_LAST_EPOCH = 32_000
"""After this epoch of a producer the writer takes a new producer id."""


@dataclass(slots=True, eq=False)
class _Wanted:
    """Markers that a caller waits for; `code` is the answer; if the request fails, `error` is set.

    They are sent only while `still()`. They name `producer`, whose later epoch fences earlier requests.
    """

    remote: TopicPartition
    count: int
    producer: ProducerIdentity
    answered: Signal
    still: Callable[[], bool]
    code: int | None = None
    error: TwinlogError | None = None


class MarkerWriter:
    """Writes the markers of many partitions: a request per broker at a time, with all markers that wait for it."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._loop = client.loop
        self._timeout_s = client.settings.request_timeout_ms / 1000
        self._producer_id: int | None = None
        self._epochs: dict[TopicPartition, int] = {}
        self._waiting: dict[int, list[_Wanted]] = {}
        self._asking = client.loop.lock()

    async def write(self, remote: TopicPartition, count: int, still: Callable[[], bool] = lambda: True) -> None:
        """Write up to `MOST_MARKERS` markers at the end of a log.

        After an error some of the markers may be there, or may arrive later, until the next call for this log writes a
        marker. Markers that wait for an earlier request are sent only while `still()`: meanwhile another copier may
        have got the partition. Raises RefusedError if the principal lacks ALTER on the cluster, ClusterError for an
        error that may pass.
        """
        if not self._client.supports(WriteTxnMarkersRequest.API_KEY, _SINCE):
            text = f"cluster {self._client.alias}: its brokers refuse markers of clients, which need Kafka 3.8"
            raise RefusedError(text, resource="the cluster", way_out=_TRANSLATE, message_id="TW-BROKER-04")
        producer = await self._producer(remote)
        leader = self._client.require_leader(remote)
        wanted = _Wanted(remote, min(count, MOST_MARKERS), producer, self._loop.signal(), still)
        waiting = self._waiting.get(leader.node)
        if waiting is None:
            self._waiting[leader.node] = [wanted]
            self._loop.start(self._send_all, leader.node)
        else:
            waiting.append(wanted)
        await wanted.answered.wait()
        if wanted.code == Code.NONE:
            return
        # A request that is still on its way must not write after the next request.
        self._epochs[remote] = producer.epoch + 1
        if wanted.error is not None:
            raise wanted.error
        code = Code.UNKNOWN_TOPIC_OR_PARTITION if wanted.code is None else wanted.code
        if error_codes.refused(code):
            refusal = self._client.lacks("ALTER", "the cluster", PURPOSE)
            refusal.way_out = f"grant it, or {_TRANSLATE}"
            raise refusal
        raise ClusterError(
            f"cluster {self._client.alias}: markers of {remote} are still to be written: {error_codes.explain(code)}"
        )

    async def _producer(self, remote: TopicPartition) -> ProducerIdentity:
        async with self._asking:
            known = self._producer_id
            if known is None or self._epochs.get(remote, 0) > _LAST_EPOCH:
                known, _ = await self._client.init_producer()
                self._producer_id = known
                self._epochs.clear()
        return ProducerIdentity(known, self._epochs.get(remote, 0))

    async def _send_all(self, node: int) -> None:
        """Send the markers that wait for a broker, until all are sent."""
        while self._waiting[node]:
            some = self._take_some(node)
            if not some:
                continue
            try:
                codes = await _write_markers(
                    self._client, node, [(one.remote, one.count, one.producer) for one in some], self._timeout_s
                )
            except TwinlogError as error:
                # The traceback would hold this frame, and so the error itself.
                fault = error.with_traceback(None)
                for one in some:
                    one.error = fault
            else:
                for one in some:
                    one.code = codes.get(one.remote)
            for one in some:
                one.answered.set()
        del self._waiting[node]

    def _take_some(self, node: int) -> list[_Wanted]:
        """The first markers that wait for a broker, as many as a request may have."""
        taken: list[_Wanted] = []
        room = MOST_AT_ONCE
        waiting = self._waiting[node]
        for at, one in enumerate(waiting):
            if not one.still():
                one.error = ClusterError(f"cluster {self._client.alias}: {one.remote} was released before its marker")
                one.answered.set()
                continue
            if taken and one.count > room:
                self._waiting[node] = waiting[at:]
                return taken
            room -= one.count
            taken.append(one)
        self._waiting[node] = []
        return taken


async def _write_markers(
    client: ClusterClient,
    node: int,
    markers: Sequence[tuple[TopicPartition, int, ProducerIdentity]],
    timeout_s: float,
) -> dict[TopicPartition, int]:
    """Have a broker write a number of markers for each partition that it leads; returns the error code of each.

    The code of several markers is that of the last of them. Raises ClusterError, and RefusedError if the brokers lack
    the request.
    """
    kind = WriteTxnMarkersRequest.WritableTxnMarker
    rounds = max((count for _, count, _ in markers), default=0)
    wanted = []
    for number in range(rounds):
        # An entry may have many partitions, and a partition once.
        entries: dict[ProducerIdentity, dict[str, list[int]]] = {}
        for remote, count, producer in markers:
            if number < count:
                entries.setdefault(producer, {}).setdefault(remote.topic, []).append(remote.partition)
        wanted += [
            kind(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                transaction_result=True,
                topics=[
                    kind.WritableTxnMarkerTopic(name=name, partition_indexes=numbers)
                    for name, numbers in topics.items()
                ],
                coordinator_epoch=0,
            )
            for producer, topics in entries.items()
        ]
    response = await client.send_change(WriteTxnMarkersRequest(markers=wanted, max_version=_SINCE), node, timeout_s)
    found: dict[TopicPartition, int] = {}
    for marker in response.markers:
        for topic in marker.topics:
            for part in topic.partitions:
                where = TopicPartition(TopicName(topic.name), part.partition_index)
                found[where] = part.error_code
    return found

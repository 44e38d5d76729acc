"""The messages of the driver and its tasks on the channel: a class for each message, and the values in them.

On the channel a message is a JSON object, with the name of the class as its `type`. The first message of each side
carries `VERSION`. If the versions differ, both sides stop reading (`lease.channel`), so only messages of the same
version are decoded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, get_args

from twinlog.errors import MessageError
from twinlog.kafka.coordinator.transactions import ProducerEpoch
from twinlog.lease.codec import Codec
from twinlog.lease.progress import Report
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import LastPoint
from twinlog.mirror.offsets.starts import AT_FIRST, StartSpec
from twinlog.model.held import HeldPartition
from twinlog.model.types import TopicPartition

VERSION = 27
"""Raised with each change of a message, of a value in a message, or of the `settings` that reach tasks in Spark's plan.

`tests/unit/lease/contract.txt` lists all of them; its test fails if a change keeps the version. After a raise,
`make reference` writes the file.
"""

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a flow's lease, for a single task: the task's copier claims it, or another share of the same lease.

    `number` counts from 0, and names the clients of the copier.
    """

    flow: str
    lease: int
    number: int


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to copy a source partition into a remote partition.

    `position` is None for a partition that was never copied; the partition then begins by `begin`. `max_batch_bytes` is
    the remote topic's `max.message.bytes`. With `drained` its last copier released it with all appends answered;
    otherwise late appends may arrive. `tip` is the last point of the partition's exact map, or None. With `on_trial`
    the partition was held, and is tried again. `heartbeats` belong to no user: they stay untransformed, and a gap in
    them is harmless.
    """

    source: TopicPartition
    remote: TopicPartition
    topic_id: str | None
    max_batch_bytes: int
    position: Position | None
    drained: bool = False
    tip: LastPoint | None = None
    heartbeats: bool = False
    begin: StartSpec = AT_FIRST
    on_trial: bool = False


# The first message of each side. Its `version` and `release` stay as they are for ever; its other fields may change.


@dataclass(frozen=True, slots=True)
class CopierHello:
    """A copier names itself and its flow; `release` is twinlog's own release, for people."""

    version: int
    release: str
    flow: str
    copier: str


@dataclass(frozen=True, slots=True)
class PlannerHello:
    """A planner names its query; the planner asks for leases in Spark's name."""

    version: int
    release: str
    query: str


@dataclass(frozen=True, slots=True)
class Welcome:
    """The driver's answer to a hello."""

    version: int
    release: str


# Messages from a copier.


@dataclass(frozen=True, slots=True)
class Claim:
    """Work under a lease from now on, at a share that the driver chooses.

    `task` is Spark's number of the task attempt. The `bridge` copies while Spark lacks a task: it gets a free share,
    and gives the share over to a task.
    """

    lease: int
    task: int = -1
    bridge: bool = False


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """The copier's task ended before its lease; usually another task claims the share again for the same copier."""

    lease: int


@dataclass(frozen=True, slots=True)
class Released:
    """Copying of partitions has ended and their positions are stored; appends to `undrained` may still arrive."""

    partitions: tuple[TopicPartition, ...]
    undrained: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class CopierHeartbeat:
    """A heartbeat of a copier; `at` is the time of sending, in seconds of the copier's own monotonic clock."""

    at: float


@dataclass(frozen=True, slots=True)
class ReportMessage:
    """The copier's progress since its last report."""

    report: Report


@dataclass(frozen=True, slots=True)
class Event:
    """An event for operators."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Hold:
    """A partition is held: its position is stored, and all its appends are answered.

    The copier keeps the partition until the driver asks for its release.
    """

    held: HeldPartition


@dataclass(frozen=True, slots=True)
class Failed:
    """The flow has failed, for a partition or as a whole; `kind` is the name of the error's class."""

    partition: TopicPartition | None
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class IdRequest:
    """The copier needs a transactional id; answered with `LentId`."""


@dataclass(frozen=True, slots=True)
class CopierLogLine:
    """A line of the copier's log below a warning, with the number of its level in Python."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class CopierEnded:
    """The copier has released all partitions and ends."""


# Messages to a copier.


@dataclass(frozen=True, slots=True)
class CopierHeartbeatResponse:
    """The answer to the heartbeat that was sent `at`: the copier may append for `valid_s` seconds from then on."""

    at: float
    valid_s: float


@dataclass(frozen=True, slots=True)
class Grants:
    """Copy these partitions, too."""

    lease: int
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Release these partitions; answered with `Released`."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """A lease is over; the copier continues with its held partitions, and its task ends."""

    lease: int


@dataclass(frozen=True, slots=True)
class LentId:
    """A transactional id and the producer that was made the only writer under it."""

    transactional_id: str
    producer: ProducerEpoch


@dataclass(frozen=True, slots=True)
class SetLogLevel:
    """Log the copier's flow from this level on, by Python's number, for `for_s` seconds; 0 seconds end the level.

    The copier sends lines below a warning to the driver, as `CopierLogLine`.
    """

    level: int
    for_s: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Release all partitions, in order, and end."""


@dataclass(frozen=True, slots=True)
class Drop:
    """End at once and store nothing: another process may run the flow."""


# Messages between a planner and the driver.


@dataclass(frozen=True, slots=True)
class NextRequest:
    """Ask whether a micro-batch is due after this micro-batch."""

    after: int


@dataclass(frozen=True, slots=True)
class NextResponse:
    """The number of the next micro-batch, or the number in the request if the time passed first."""

    batch: int


@dataclass(frozen=True, slots=True)
class SharesRequest:
    """Ask for the shares of each task of a micro-batch."""


@dataclass(frozen=True, slots=True)
class SharesResponse:
    """For each task its share of each flow."""

    tasks: tuple[tuple[Share, ...], ...]


Hello: TypeAlias = CopierHello | PlannerHello
FromCopier: TypeAlias = (
    Claim
    | TaskEnded
    | Released
    | CopierHeartbeat
    | ReportMessage
    | Event
    | Hold
    | Failed
    | IdRequest
    | CopierLogLine
    | CopierEnded
)
ToCopier: TypeAlias = CopierHeartbeatResponse | Grants | Release | LeaseEnded | LentId | SetLogLevel | Stop | Drop
Planning: TypeAlias = NextRequest | NextResponse | SharesRequest | SharesResponse
Message: TypeAlias = Hello | Welcome | FromCopier | ToCopier | Planning


_CODECS: dict[str, Codec] = {cls.__name__: Codec(cls) for cls in get_args(Message)}


def encode(message: Message) -> bytes:
    name = type(message).__name__
    return json.dumps({"type": name, **_CODECS[name].encode(message)}, separators=(",", ":")).encode()


def decode(data: bytes) -> Message:
    """Return the message.

    Raises MessageError, which names message and field, for data with another type or other fields.
    """
    value = parse(data)
    name = value.pop("type", None)
    codec = _CODECS.get(name) if isinstance(name, str) else None
    if codec is None:
        raise MessageError(f"no message has the type {name!r:.40}")
    message: Message = codec.decode(value)
    return message


def require(message: Message, cls: type[M]) -> M:
    """The message, if it is the expected answer; raises MessageError for another message."""
    if not isinstance(message, cls):
        raise MessageError(f"{type(message).__name__} came instead of {cls.__name__}")
    return message


def parse(data: bytes) -> dict[str, Any]:
    """The fields of a message of any version. Raises MessageError."""
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise MessageError(f"{data[:40]!r} is no message")
    return value

"""What the driver and its tasks send each other on the channel: one class for each message.

On the way a message is one JSON object, its `type` the name of the class. The first message of each side carries
`VERSION`; neither reads on when they differ (`lease.greeting`), so that no message of another version is ever decoded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, get_args

from twinlog.errors import MessageError
from twinlog.kafka.coordinator.transactions import ProducerEpoch
from twinlog.lease.codec import Codec
from twinlog.lease.grant import Grant, Share
from twinlog.lease.progress import Report
from twinlog.model.held import HeldPartition
from twinlog.model.types import TopicPartition

VERSION = 18
"""Raised with each change of a message, of a value in one, or of what travels to tasks in Spark's plan (`settings`).

`tests/unit/lease/contract.txt` has all of that; its test fails where one changed and this did not.
"""


# The first of each side. Their `version` and `release` stay as they are for ever, the rest may change.


@dataclass(frozen=True, slots=True)
class CopierHello:
    """A copier names itself and its flow; `release` is twinlog's own, for people."""

    version: int
    release: str
    flow: str
    copier: str


@dataclass(frozen=True, slots=True)
class PlannerHello:
    """A planner names its query: what asks for leases in Spark's name."""

    version: int
    release: str
    query: str


@dataclass(frozen=True, slots=True)
class Welcome:
    """The driver's answer to either."""

    version: int
    release: str


# From a copier.


@dataclass(frozen=True, slots=True)
class Claim:
    """Work under a lease from now on, at a share of it that the driver chooses; `task` is Spark's own number of the
    attempt that does."""

    lease: int
    task: int = -1


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """The copier's task ended before its lease; as a rule another task claims it again for the same copier."""

    lease: int


@dataclass(frozen=True, slots=True)
class Released:
    """Partitions are no longer copied and their positions are stored; appends to `undrained` may yet arrive."""

    partitions: tuple[TopicPartition, ...]
    undrained: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class CopierHeartbeat:
    """A heartbeat of a copier; `at` is when it sent this, in seconds of its own monotonic clock."""

    at: float


@dataclass(frozen=True, slots=True)
class ReportMessage:
    """What the copier did since the last one."""

    report: Report


@dataclass(frozen=True, slots=True)
class Event:
    """Something an operator should see."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Hold:
    """A partition is held: its position is stored, and nothing of it is in flight. The copier keeps it until the driver
    asks for its release."""

    held: HeldPartition


@dataclass(frozen=True, slots=True)
class Failed:
    """The flow cannot go on, for a partition or as a whole; `kind` is the name of the error's class."""

    partition: TopicPartition | None
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class IdRequest:
    """A transactional id is needed; answered with `LentId`."""


@dataclass(frozen=True, slots=True)
class CopierEnded:
    """The copier has released everything and ends."""


# To a copier.


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
    """A lease is over; the copier goes on with what it holds, and its task ends."""

    lease: int


@dataclass(frozen=True, slots=True)
class LentId:
    """A transactional id and the producer that was made the only writer under it."""

    transactional_id: str
    producer: ProducerEpoch


@dataclass(frozen=True, slots=True)
class Stop:
    """Release everything, in order, and end."""


@dataclass(frozen=True, slots=True)
class Drop:
    """End at once and store nothing: another process may run the flow."""


# Between a planner and the driver.


@dataclass(frozen=True, slots=True)
class NextRequest:
    """Is a micro-batch due after this one?"""

    after: int


@dataclass(frozen=True, slots=True)
class NextResponse:
    """The number of the next micro-batch, or the one asked with when none is due."""

    batch: int


@dataclass(frozen=True, slots=True)
class SharesRequest:
    """What is each task of a micro-batch to do?"""


@dataclass(frozen=True, slots=True)
class SharesResponse:
    """For each task its share of each flow."""

    tasks: tuple[tuple[Share, ...], ...]


Hello: TypeAlias = CopierHello | PlannerHello
FromCopier: TypeAlias = (
    Claim | TaskEnded | Released | CopierHeartbeat | ReportMessage | Event | Hold | Failed | IdRequest | CopierEnded
)
ToCopier: TypeAlias = CopierHeartbeatResponse | Grants | Release | LeaseEnded | LentId | Stop | Drop
Planning: TypeAlias = NextRequest | NextResponse | SharesRequest | SharesResponse
Message: TypeAlias = Hello | Welcome | FromCopier | ToCopier | Planning

M = TypeVar("M")

_CODECS: dict[str, Codec] = {cls.__name__: Codec(cls) for cls in get_args(Message)}


def encode(message: Message) -> bytes:
    name = type(message).__name__
    return json.dumps({"type": name, **_CODECS[name].encode(message)}, separators=(",", ":")).encode()


def decode(data: bytes) -> Message:
    """Raises MessageError, which names message and field, when it is none, or one with other fields."""
    value = parse(data)
    name = value.pop("type", None)
    codec = _CODECS.get(name) if isinstance(name, str) else None
    if codec is None:
        raise MessageError(f"no message has the type {name!r:.40}")
    message: Message = codec.decode(value)
    return message


def require(message: Message, cls: type[M]) -> M:
    """The message as the one that answers; raises MessageError when it is another."""
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

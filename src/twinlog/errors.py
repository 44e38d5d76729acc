"""Everything twinlog raises on purpose.

::

    TwinlogError
    ├── ConfigError      the text the user wrote is wrong            fatal
    ├── PatternError     a regular expression is wrong, or too slow  fatal
    ├── OptionError      an option or column of a DataFrame is wrong fatal
    ├── ClusterError     a cluster cannot be reached or refuses      retriable unless noted
    │   ├── RefusedError     authentication or authorisation         fatal
    │   │   └── TooFewBrokersError   for the replicas of a topic
    │   ├── GroupTakenError  members of another kind use a group     retriable
    │   └── NotAppendedError     a broker did not append, and gave why   retriable
    ├── CopyError        a record or batch cannot be copied          fatal
    │   ├── CorruptBatchError    its CRC or its layout is wrong
    │   ├── RecordTooLargeError  one record alone exceeds the target's limit
    │   ├── RefusedRecordError   the target refuses one record for another reason
    │   ├── NotAcknowledgedError the target did not take a batch in time
    │   └── TransformError   a transform cannot be used, or fails on a record
    ├── FencedError      another process took over what this one wrote     fatal
    │   └── ForgottenError   or the cluster does not remember who wrote it
    ├── GapError         records were lost before they were copied   holds its partition
    ├── NoStartError     a partition has no position and may not begin   holds its partition
    ├── DriverLostError  the driver of a lease has gone              retriable
    ├── MessageError     a message between driver and task has another form  fatal
    │   └── VersionMismatchError  they are of different versions     fatal
    ├── RequestError     a request to the REST API cannot be fulfilled   by its status
    │   └── NotOwnerError    another worker fulfils it
    └── EngineError      Spark cannot start, or refuses              fatal
        └── EngineLostError  Spark's JVM has ended                   retriable

`retriable` of an error is whether a retry can help. Every error can be pickled, because it may cross from a Spark
worker to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class TwinlogError(Exception):
    """Base of all errors raised on purpose; with `retriable` the same call may succeed later.

    `way_out` names the setting or the command that ends the trouble, where there is one; the text of the error ends
    with it.
    """

    retriable: ClassVar[bool] = False

    def __init__(self, message: str, *, way_out: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.way_out = way_out

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self)._rebuild, (self.message, dict(self.__dict__)))

    @classmethod
    def _rebuild(cls, message: str, state: dict[str, object]) -> TwinlogError:
        error = cls.__new__(cls)
        Exception.__init__(error, message)
        error.__dict__.update(state)
        return error

    def __str__(self) -> str:
        return f"{self.message}; {self.way_out}" if self.way_out else self.message


class ConfigProblem:
    """One thing wrong in a configuration text: where, which key, what was found, what was expected."""

    __slots__ = ("expected", "file", "found", "key", "line")

    def __init__(self, file: str, line: int | None, key: str, found: str, expected: str) -> None:
        self.file = file
        self.line = line
        self.key = key
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.key}: {self.found}; expected {self.expected}"


class ConfigError(TwinlogError):
    """The configuration is wrong; lists every problem found, not only the first. Nothing was contacted or changed.

    `warnings` are of the same file: one of them may name the cause, such as a misspelt key that is only ignored.
    """

    def __init__(self, problems: list[ConfigProblem], warnings: Sequence[str] = ()) -> None:
        self.problems = problems
        self.warnings = tuple(warnings)
        super().__init__("\n".join(str(problem) for problem in problems))


_SHOWN = 200
"""Characters of an expression that a message has: a list may be of thousands of names."""


class PatternError(TwinlogError):
    """A regular expression that Java refuses as well, or whose matching takes too long.

    `why` says what is wrong, `at` is the index in `text`, the whole expression as the user wrote it; None where no
    single place is to blame.
    """

    def __init__(self, why: str, at: int | None, text: str) -> None:
        self.why = why
        self.at = at
        self.text = text
        place = "in" if at is None else f"at character {at + 1} of"
        begin = max(0, (at or 0) - _SHOWN // 2)
        cut = text[begin : begin + _SHOWN]
        shown = f"'{cut}'" if cut.isprintable() else repr(cut)
        before, behind = "..." if begin else "", "..." if begin + _SHOWN < len(text) else ""
        super().__init__(f"{why}, {place} {before}{shown}{behind}")


class OptionError(TwinlogError):
    """An option or a column of a DataFrame is wrong, or two do not go together; in the words of Spark's own source."""


class ClusterError(TwinlogError):
    """A cluster could not be reached, or answered with an error that may pass."""

    retriable = True


class ThrottledError(ClusterError):
    """A broker takes no request on a connection for a while, by a quota (KIP-219)."""


class RefusedError(ClusterError):
    """A cluster refused: wrong credentials, or a permission is missing. Trying again does not help.

    `resource` is the topic or group that a permission is missing for, "" where the cluster refuses the whole client.
    """

    retriable = False

    def __init__(self, message: str, *, resource: str = "", way_out: str = "") -> None:
        super().__init__(message, way_out=way_out)
        self.resource = resource


class TooFewBrokersError(RefusedError):
    """A topic cannot be created, because it is to have more replicas than there are brokers."""


class TopicGoneError(ClusterError):
    """A topic does not exist."""


class GroupTakenError(ClusterError):
    """A group cannot be joined while its members use another protocol, such as workers of MirrorMaker 2."""


class NotAppendedError(ClusterError):
    """A broker did not append a batch of our own; `code` is the protocol's error code, `size` the batch's bytes."""

    def __init__(self, message: str, code: int, size: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.size = size


class CopyError(TwinlogError):
    """A batch cannot be copied; its partition's flow stops on it."""


class CorruptBatchError(CopyError):
    """A batch from the source fails its CRC32C or its layout makes no sense."""


class RecordTooLargeError(CopyError):
    """One record alone is larger than the remote topic's `max.message.bytes`.

    `source_offset` is the record's offset on the source; `size` and `limit` are bytes.
    """

    def __init__(
        self, message: str, *, source_offset: int = -1, size: int = 0, limit: int = 0, way_out: str = ""
    ) -> None:
        super().__init__(message, way_out=way_out)
        self.source_offset = source_offset
        self.size = size
        self.limit = limit


class RefusedRecordError(CopyError):
    """The target refuses the record at `source_offset`, as INVALID_TIMESTAMP and INVALID_RECORD do (KIP-467)."""

    def __init__(self, message: str, *, source_offset: int = -1, way_out: str = "") -> None:
        super().__init__(message, way_out=way_out)
        self.source_offset = source_offset


class NotAcknowledgedError(CopyError):
    """The target did not acknowledge a batch within `delivery.timeout.ms` or `retries`; it may have the batch."""


class TransformError(CopyError):
    """A transform cannot be found, raises, or returns something else than rows."""


class NoPartitionError(TransformError):
    """A transform routes a record to a partition that its topic does not have, and may get."""


class FencedError(TwinlogError):
    """Another producer writes under the same transactional id now; this process must not write any more."""


class ForgottenError(FencedError):
    """A coordinator knows nothing of a producer: its transactional id expired, or has another producer id by now."""


class GapError(TwinlogError):
    """Source records are gone before they were copied: retention, truncation, or a recreated topic.

    `resume_at` is the first source offset that can be copied, -1 where it is unknown. `kind` is that of the gap
    (`mirror.gaps.Gap`).
    """

    def __init__(self, message: str, *, kind: str = "", resume_at: int = -1, way_out: str = "") -> None:
        super().__init__(message, way_out=way_out)
        self.kind = kind
        self.resume_at = resume_at


class NoStartError(TwinlogError):
    """A partition has no stored position, and `auto.offset.reset = none` names no place to begin at."""


class DriverLostError(TwinlogError):
    """The driver that gave a lease no longer answers; a task must stop writing."""

    retriable = True


class MessageError(TwinlogError):
    """What came over the channel between driver and task is no message, or one with other fields."""


class VersionMismatchError(MessageError):
    """Driver and task have different versions of twinlog; nothing is copied in that task."""


class RequestError(TwinlogError):
    """A request to a worker's REST API is not fulfilled; `status` is the HTTP status of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotOwnerError(RequestError):
    """Only the worker at `url` can fulfil a request: the leader of the group, or the owner of a connector.

    `url` is empty while nobody knows who that is.
    """

    def __init__(self, message: str, url: str = "") -> None:
        super().__init__(409, message)
        self.url = url


class UnavailableError(RequestError):
    """A worker does not do what is asked, and has done nothing of it, because it is ending: another one does."""

    def __init__(self, message: str) -> None:
        super().__init__(503, message)


class UndeliveredError(RequestError):
    """A request could not be passed on to the worker that can fulfil it, and nothing was done: it may be sent again.

    The answer is `status` when no worker takes it in the end.
    """

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(status, message)


class EngineError(TwinlogError):
    """Spark cannot start, or refuses what it is asked; nothing of a record is lost with that."""


class EngineLostError(EngineError):
    """Spark's JVM has ended, or Spark has stopped by itself; another one may be started in its place."""

    retriable = True


def is_ours(kind: str) -> bool:
    """Whether the name of a class is that of an error of twinlog's, whose text is a sentence that needs no name."""
    found = globals().get(kind)
    return isinstance(found, type) and issubclass(found, TwinlogError)

"""Everything twinlog raises on purpose.

::

    TwinlogError
    ├── ConfigError      the text the user wrote is wrong            fatal
    ├── PatternError     a regular expression is wrong, or too slow  fatal
    ├── OptionError      an option or column of a DataFrame is wrong fatal
    ├── ClusterError     a cluster is out of reach or refuses        retriable unless noted
    │   ├── RefusedError     authentication or authorisation         fatal
    │   │   └── TooFewBrokersError   for the replicas of a topic
    │   ├── GroupGoneError   a consumer group is unknown             retriable
    │   ├── GroupTakenError  members of another kind use a group     retriable
    │   └── NotAppendedError     a broker refused to append, with a reason   retriable
    ├── CopyError        a record or batch is impossible to copy     fatal
    │   ├── CorruptBatchError    its CRC or its layout is wrong
    │   ├── RecordTooLargeError  a single record exceeds the target's limit
    │   ├── RefusedRecordError   the target refuses a record for another reason
    │   ├── NotAcknowledgedError a batch is unacknowledged in time
    │   ├── OffsetHoleError      copies would get other offsets than their sources    holds its partition
    │   ├── DivergedError        the target has other records at these offsets         holds its partition
    │   ├── DifferenceError      the proof of equality found a difference              holds its partition
    │   └── TransformError   a transform is unusable, or fails on a record
    ├── FencedError      another process took over this process's writes   fatal
    │   └── ForgottenError   or the cluster forgot the writer
    ├── GapError         records were lost before they were copied   holds its partition
    ├── NoStartError     a partition lacks a position and a default      holds its partition
    ├── DriverLostError  the driver of a lease has gone              retriable
    ├── MessageError     a message between driver and task has another form  fatal
    │   └── VersionMismatchError  they are of different versions     fatal
    ├── RequestError     a request to the REST API fails                 by its status
    │   └── NotOwnerError    another worker fulfils it
    ├── ListenError      an address is taken, or another machine's       fatal
    └── EngineError      Spark fails to start, or refuses            fatal
        └── EngineLostError  Spark's JVM has ended                   retriable

`retriable` of an error is whether a retry can help. Every error can be pickled, because it may cross from a Spark
worker to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from twinlog.errors.mistakes import ConfigProblem, ConfigWarning


class TwinlogError(Exception):
    """Base of all errors raised on purpose; with `retriable` the same call may succeed later.

    `way_out` names the setting or the command that ends the trouble, if there is any; the text of the error ends with
    it. `message_id` is the id of the cause, as `twinlog explain` knows it. Without a known cause the log has the id of
    the step that fails, or `kind_id`, the id of the class.
    """

    retriable: ClassVar[bool] = False
    kind_id: ClassVar[str] = ""

    def __init__(self, message: str, *, way_out: str = "", message_id: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.way_out = way_out
        self.message_id = message_id

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


class ConfigError(TwinlogError):
    """The configuration is wrong; the error lists every problem. The error comes before any contact and any change.

    `warnings` are of the same file: a warning may name the cause, for example a misspelt key that is only ignored.
    """

    def __init__(self, problems: list[ConfigProblem], warnings: Sequence[ConfigWarning] = ()) -> None:
        self.problems = problems
        self.warnings = tuple(warnings)
        super().__init__("\n".join(str(problem) for problem in problems))


_SHOWN = 200
"""Characters of an expression that a message has: a list may be of thousands of names."""


class PatternError(TwinlogError):
    """A regular expression that Java refuses as well, or whose matching takes too long.

    `why` names the mistake, `text` is the whole expression as the user wrote it, `at` the mistake's index in `text`, or
    None if the mistake concerns all of it.
    """

    kind_id = "TW-FILE-04"

    def __init__(self, why: str, at: int | None, text: str, *, message_id: str = "") -> None:
        self.why = why
        self.at = at
        self.text = text
        place = "in" if at is None else f"at character {at + 1} of"
        begin = max(0, (at or 0) - _SHOWN // 2)
        cut = text[begin : begin + _SHOWN]
        shown = f"'{cut}'" if cut.isprintable() else repr(cut)
        before, behind = "..." if begin else "", "..." if begin + _SHOWN < len(text) else ""
        super().__init__(f"{why}, {place} {before}{shown}{behind}", message_id=message_id)


class OptionError(TwinlogError):
    """An option or a column of a DataFrame is wrong, or two options contradict each other; in the words of Spark's own
    source."""

    kind_id = "TW-USE-01"


class ClusterError(TwinlogError):
    """The connection to a cluster failed, or the cluster answered with an error that may pass."""

    retriable = True


class ThrottledError(ClusterError):
    """A broker refuses requests on a connection for a while, by a quota (KIP-219)."""


class RefusedError(ClusterError):
    """A cluster refused: wrong credentials, or a permission is missing. A retry has the same end.

    `resource` is the topic, the group or the kind of request that the refusal is about, "" if the cluster refuses the
    whole client.
    """

    retriable = False
    kind_id = "TW-RIGHT-02"

    def __init__(self, message: str, *, resource: str = "", way_out: str = "", message_id: str = "") -> None:
        super().__init__(message, way_out=way_out, message_id=message_id)
        self.resource = resource


class TooFewBrokersError(RefusedError):
    """The creation of a topic failed: it asks for more replicas than the cluster has brokers."""


class TopicGoneError(ClusterError):
    """A topic is missing."""


class GroupGoneError(ClusterError):
    """A consumer group has neither committed offsets nor checkpoints."""


class GroupTakenError(ClusterError):
    """Joining a group fails while its members use another protocol, for example workers of MirrorMaker 2."""

    kind_id = "TW-LEADER-15"


class NotAppendedError(ClusterError):
    """A broker refused a batch of our own; `code` is the protocol's error code, `size` the batch's bytes."""

    def __init__(self, message: str, code: int, size: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.size = size


class CopyError(TwinlogError):
    """A batch is impossible to copy; its partition's flow stops on it."""

    kind_id = "TW-RECORD-05"


class CorruptBatchError(CopyError):
    """A batch from the source fails its CRC32C or has an invalid layout."""

    kind_id = "TW-RECORD-03"


class RecordTooLargeError(CopyError):
    """A single record is larger than the remote topic's `max.message.bytes`.

    `source_offset` is the record's offset on the source; `size` and `limit` are bytes.
    """

    kind_id = "TW-RECORD-02"

    def __init__(
        self, message: str, *, source_offset: int = -1, size: int = 0, limit: int = 0, way_out: str = ""
    ) -> None:
        super().__init__(message, way_out=way_out)
        self.source_offset = source_offset
        self.size = size
        self.limit = limit


class RefusedRecordError(CopyError):
    """The target refuses the record at `source_offset`, as INVALID_TIMESTAMP and INVALID_RECORD do (KIP-467)."""

    kind_id = "TW-RECORD-01"

    def __init__(self, message: str, *, source_offset: int = -1, way_out: str = "") -> None:
        super().__init__(message, way_out=way_out)
        self.source_offset = source_offset


class NotAcknowledgedError(CopyError):
    """A batch is still unacknowledged after `delivery.timeout.ms` or `retries`; the target may have it."""

    kind_id = "TW-TARGET-01"


class OffsetHoleError(CopyError):
    """The next copy of a partition with identical offsets would get another offset than its source.

    A transaction whose end is unknown, too many offsets that lack a record, or a log that the target refuses to begin
    later.
    """

    kind_id = "TW-IDENT-02"


class DivergedError(CopyError):
    """The target lacks a record of the source, or has another record at its offset, so all later offsets differ."""

    kind_id = "TW-IDENT-01"


class DifferenceError(CopyError):
    """The proof of equality found another record on the target than on the source, or a missing or foreign record.

    `kind` is the kind of the difference (`lease.progress.DifferenceKind`). The offsets are those of the first different
    record, -1 if unknown.
    """

    kind_id = "TW-PROOF-01"

    def __init__(
        self, message: str, *, kind: str = "", source_offset: int = -1, target_offset: int = -1, way_out: str = ""
    ) -> None:
        super().__init__(message, way_out=way_out)
        self.kind = kind
        self.source_offset = source_offset
        self.target_offset = target_offset


class TransformError(CopyError):
    """A transform is missing, raises, or returns something else than rows."""

    kind_id = "TW-RECORD-04"


class NoPartitionError(TransformError):
    """A transform routes a record to a partition that its topic lacks at present, and may get."""

    kind_id = "TW-TRANSFORM-02"


class FencedError(TwinlogError):
    """Another producer writes under the same transactional id now; this process has to stop its writes."""

    kind_id = "TW-TARGET-06"


class ForgottenError(FencedError):
    """A coordinator has forgotten a producer: its transactional id expired, or has another producer id by now."""


class OutOfSequenceError(ClusterError):
    """The target has other records of a transaction under the next sequence numbers: only its log names them."""


class GapError(TwinlogError):
    """Source records are gone before they were copied: retention, truncation, or a recreated topic.

    `resume_at` is the first source offset that can be copied, -1 if it is unknown. `kind` is that of the gap
    (`mirror.gaps.Gap`).
    """

    kind_id = "TW-GAP-01"

    def __init__(
        self, message: str, *, kind: str = "", resume_at: int = -1, way_out: str = "", message_id: str = ""
    ) -> None:
        super().__init__(message, way_out=way_out, message_id=message_id)
        self.kind = kind
        self.resume_at = resume_at


class NoStartError(TwinlogError):
    """A partition lacks a stored position, and `auto.offset.reset = none` forbids a default."""

    kind_id = "TW-START-01"


class DriverLostError(TwinlogError):
    """The driver that gave a lease has stopped answering; the task has to stop its writes."""

    retriable = True
    kind_id = "TW-LEASE-01"


class MessageError(TwinlogError):
    """The channel between driver and task carried unknown bytes, or a message with other fields."""


class VersionMismatchError(MessageError):
    """Driver and task have different versions of twinlog; the task refuses to copy."""

    kind_id = "TW-LEASE-05"


class RequestError(TwinlogError):
    """A request to a worker's REST API fails; `status` is the HTTP status of the answer.

    The message of the answer begins with `message_id`, if there is any: a message of Kafka's stays as it is.
    """

    def __init__(self, status: int, message: str, *, message_id: str = "") -> None:
        super().__init__(message, message_id=message_id)
        self.status = status

    @classmethod
    def of(cls, status: int, error: TwinlogError) -> RequestError:
        """The failure of a request by another error, with the id of its cause."""
        return RequestError(status, str(error), message_id=error.message_id or error.kind_id)


class NotOwnerError(RequestError):
    """Only the worker at `url` can fulfil a request: the leader of the group, or the owner of a connector.

    `url` is empty while that worker is unknown.
    """

    def __init__(self, message: str, url: str = "") -> None:
        super().__init__(409, message)
        self.url = url


class UnavailableError(RequestError):
    """A worker refuses a request before any effect, because it is ending: another worker can fulfil the request."""

    def __init__(self, message: str) -> None:
        super().__init__(503, message)


class UndeliveredError(RequestError):
    """Passing a request on to the worker that can fulfil it failed before any effect: the client may send it again.

    The answer is `status` when all workers have refused it in the end.
    """

    def __init__(self, message: str, status: int = 500, *, message_id: str = "") -> None:
        super().__init__(status, message, message_id=message_id)


class ListenError(TwinlogError, OSError):
    """This process cannot listen at an address: another process has it, or it belongs to another machine."""


class EngineError(TwinlogError):
    """Spark fails to start, or refuses a call; all records are kept."""


class EngineLostError(EngineError):
    """Spark's JVM has ended, or Spark has stopped by itself; another JVM may be started in its place."""

    retriable = True


def is_ours(kind: str) -> bool:
    """Whether the name of a class is that of an error of twinlog's, whose text is a sentence that is complete by
    itself."""
    found = globals().get(kind)
    return isinstance(found, type) and issubclass(found, TwinlogError)

"""The signed statement of a proof: a JSON file of the ranges whose records are equal on both clusters, with a digest of
each, and the file of its signature.

The signed bytes are exactly the bytes of the JSON file. Secrets and the content of records stay out of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from twinlog import __version__
from twinlog.errors import OptionError, TwinlogError
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.proven_ranges import ProvenRange
from twinlog.ops.verify.model import ComparedRange, Side, Verdict
from twinlog.ops.verify.planner import VerifyPlan
from twinlog.ops.verify.signing import SigningKey, VerifyingKey
from twinlog.ops.verify.verify_lines import word_of
from twinlog.settings.client import IsolationLevel

FORMAT, VERSION = "twinlog-statement", 1

RANGE_RECORDS = 10_000
"""The least number of records of a full range: a later comparison names the first range that differs."""

COMPARED, MOVED = "verify", "switchover"
"""The kinds of statements: of a comparison of all records, with digests, and of a switchover, by positions and by the
proof of equality."""

_ISOLATION = ("read_uncommitted", "read_committed")

T = TypeVar("T")


class StatementError(TwinlogError):
    """A statement was altered, is of another form, or is about other clusters."""

    kind_id = "TW-VERIFY-04"


@dataclass(frozen=True, slots=True)
class StatedCluster:
    """A cluster by its alias in the file of the flow, and by its id, if it has an id."""

    alias: str
    cluster_id: str | None


@dataclass(frozen=True, slots=True)
class StatedPartition:
    """A source partition and its copy, with the ranges of equal records: `ranges` of a comparison, or ranges `proven`
    while the flow ran."""

    source: TopicPartition
    remote: TopicPartition
    ranges: tuple[ComparedRange, ...]
    proven: tuple[ProvenRange, ...] = ()


@dataclass(frozen=True, slots=True)
class StatedFlow:
    """A flow of a statement; `isolation_level` is that of its reader on the source."""

    flow: str
    source: StatedCluster
    target: StatedCluster
    isolation_level: IsolationLevel
    partitions: tuple[StatedPartition, ...]

    def cluster(self, side: Side) -> StatedCluster:
        """The cluster of a side."""
        return self.source if side == "source" else self.target


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement whose signature is right; `time` is the moment of the statement in UTC."""

    kind: str
    time: str
    twinlog: str
    result: str
    signer: VerifyingKey
    flows: tuple[StatedFlow, ...]

    def as_json(self) -> dict[str, Any]:
        """Its head as a JSON object."""
        return {
            "kind": self.kind,
            "time": self.time,
            "twinlog": self.twinlog,
            "result": self.result,
            "key": self.signer.fingerprint,
        }


def signature_path(path: Path) -> Path:
    """The file with the signature of a statement."""
    return path.with_name(f"{path.name}.sig")


def signed_files(path: Path, content: Mapping[str, Any], key: SigningKey) -> dict[Path, bytes]:
    """The bytes of a statement and of its signature, each with its file."""
    data = (json.dumps(content, indent=1) + "\n").encode("ascii")
    return {path: data, signature_path(path): key.sign(data)}


def compose(kind: str, result: str, flows: Sequence[Mapping[str, Any]], key: SigningKey, now: float) -> dict[str, Any]:
    """The content of a statement of `now`, in seconds since 1970."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
        "twinlog": __version__,
        "public_key": key.public.pem.decode("ascii"),
        "result": result,
        "flows": list(flows),
    }


def state_comparison(
    plans: Sequence[VerifyPlan], found: Sequence[Verdict], failed: Mapping[str, str], key: SigningKey, now: float
) -> dict[str, Any]:
    """The statement of a comparison; `failed` are wholly uncompared flows, each with the reason."""
    rows = {(one.flow, one.topic, one.partition): one for one in found}
    flows = [
        {
            "flow": plan.parts[0].flow,
            "source": asdict(StatedCluster(plan.rules.source_alias, plan.cluster_ids[0])),
            "target": asdict(StatedCluster(plan.rules.target_alias, plan.cluster_ids[1])),
            "isolation_level": plan.rules.source.isolation_level,
            "partitions": [
                _stated(rows[part.flow, part.source.topic, part.source.partition])
                for part in sorted(plan.parts, key=lambda one: (one.source.topic, one.source.partition))
            ],
        }
        for plan in plans
        if plan.parts
    ]
    states = {one.equal for one in found}
    unknown = None in states or bool(failed) or any(one.problem is not None for one in found)
    result = "different" if False in states else "not compared" if unknown else "equal"
    return {
        **compose(COMPARED, result, flows, key, now),
        "flows_not_compared": [{"flow": name, "problem": problem} for name, problem in failed.items()],
    }


def _stated(one: Verdict) -> dict[str, Any]:
    first = one.first
    return {
        "topic": one.topic,
        "remote_topic": one.remote_topic,
        "partition": one.partition,
        "result": word_of([one]),
        "source_start": one.source_start,
        "source_end": one.source_end,
        "target_start": one.target_start,
        "target_end": one.target_end,
        "records": one.records,
        "differences": one.differences,
        "foreign": one.foreign,
        # The text of a difference would have content of records.
        "first_difference": None
        if first is None
        else {"what": first.what, "source_offset": first.source_offset, "target_offset": first.target_offset},
        "not_compared": [asdict(left) for left in one.left],
        "problem": one.problem,
        "ranges": [asdict(part) for part in one.ranges],
    }


def read_statement(path: Path, key: VerifyingKey | None) -> Statement:
    """Check the signature of a statement, and read the statement.

    In place of an absent `key` the statement's own key counts, which shows only that the file is as it was signed.
    Raises StatementError, and OptionError for an unreadable file.
    """
    try:
        data = path.read_bytes()
        signature = signature_path(path).read_bytes()
    except OSError as error:
        raise OptionError(f"{error.filename} is unreadable: {error.strerror}") from None
    signer = key if key is not None else _parsed(path, data, _own_key)
    if not signer.accepts(data, signature):
        raise StatementError(
            f"the signature {signature_path(path)} does not fit {path}: another key has signed it, or it was altered "
            "since"
        )
    return _parsed(path, data, lambda content: _statement(content, signer))


def _parsed(path: Path, data: bytes, read: Callable[[Any], T]) -> T:
    try:
        content = json.loads(data)
        if (content["format"], content["version"]) != (FORMAT, VERSION):
            raise StatementError(f"{path} is no statement of version {VERSION}, but of {content['version']}")
        return read(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StatementError(f"{path} is no statement of version {VERSION}: {error!r}") from None


def _own_key(content: Any) -> VerifyingKey:
    return VerifyingKey.of_pem(content["public_key"].encode("ascii"))


def _statement(content: Any, signer: VerifyingKey) -> Statement:
    if content["kind"] == COMPARED:
        flows = tuple(_flow(one, one["isolation_level"]) for one in content["flows"])
    else:
        # A later check of proven ranges reads the target alone.
        moved = [_flow(one, "read_uncommitted") for one in content["flows"]]
        flows = tuple(one for one in moved if any(part.proven for part in one.partitions))
    return Statement(content["kind"], content["time"], content["twinlog"], content["result"], signer, flows)


def _flow(one: Any, isolation_level: Any) -> StatedFlow:
    if isolation_level not in _ISOLATION:
        raise ValueError(f"isolation level {isolation_level}")
    return StatedFlow(
        one["flow"],
        StatedCluster(**one["source"]),
        StatedCluster(**one["target"]),
        isolation_level,
        tuple(
            StatedPartition(
                TopicPartition(TopicName(part["topic"]), int(part["partition"])),
                TopicPartition(TopicName(part["remote_topic"]), int(part["partition"])),
                tuple(ComparedRange(**found) for found in part.get("ranges", ())),
                tuple(ProvenRange(**found) for found in part.get("proven", ())),
            )
            for part in one["partitions"]
        ),
    )

"""`twinlog verify`: whether copies are equal to their sources, record by record, or to a signed statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from twinlog.clock import SYSTEM
from twinlog.console import signals
from twinlog.console.command_log import ends_if_wrong, log_warnings, print_error, waits_reported
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FOUND, UNREACHABLE, WRONG, failure_text
from twinlog.console.options import (
    MOMENT_HELP,
    AnswerTimeout,
    AnyFlow,
    ClusterLogins,
    Conf,
    ConnectorFiles,
    Everything,
    FileOrWorker,
    Master,
    Output,
    Secrets,
    Topics,
    WorkerUrl,
    chosen,
    moment_ms,
    spark_options,
    topic_expressions,
)
from twinlog.console.spark_batch import SparkSignalHandler, run_in_spark
from twinlog.errors import ClusterError, TwinlogError
from twinlog.errors.message_ids import id_first
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.model.amounts import counted
from twinlog.model.types import TopicName
from twinlog.ops.running_worker import read_flows_asked
from twinlog.ops.verify.statement_command import checked_statement, signer_of, write_statement

if TYPE_CHECKING:
    from twinlog.console.progress import ReadingProgress
    from twinlog.ops.verify.model import Verdict
    from twinlog.ops.verify.planner import VerifyOptions, VerifyPlan
    from twinlog.ops.verify.recheck import RecheckPlan, RecheckVerdict
    from twinlog.ops.verify.statement import StatedFlow, Statement
    from twinlog.settings.flow import FlowSettings

P = TypeVar("P")


def verify(
    file: FileOrWorker = None,
    connectors: ConnectorFiles = None,
    url: WorkerUrl = None,
    logins: ClusterLogins = None,
    flow: AnyFlow = None,
    topic: Topics = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help=f"Begin at the first record of this time or later: {MOMENT_HELP}",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="End before the first record of this time or later.", show_default=False),
    ] = None,
    every_record: Annotated[
        bool,
        typer.Option(
            "--every-record",
            help="Decode all batches, also batches with equal bytes: you can then compare the digests of two runs.",
        ),
    ] = False,
    ignore_foreign: Annotated[
        bool, typer.Option("--ignore-foreign", help="Accept records of other producers in a remote topic.")
    ] = False,
    sign: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY",
            exists=True,
            dir_okay=False,
            help="Write a statement of the result, signed with this private key of `twinlog keygen`: see --statement.",
            show_default=False,
        ),
    ] = None,
    statement: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            dir_okay=False,
            help="With --sign: write the statement to PATH, and its signature to PATH.sig.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            exists=True,
            dir_okay=False,
            help="Check the signature of this statement, and compare its ranges on both clusters with its digests.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="PUB",
            exists=True,
            dir_okay=False,
            help="With --against: the public key of the signer. Default: the key in the statement.",
            show_default=False,
        ),
    ] = None,
    target_only: Annotated[
        bool, typer.Option("--target-only", help="With --against: leave the source out, for example after its loss.")
    ] = False,
    everything: Everything = False,
    output: Output = DataFormat.TABLE,
    timeout: AnswerTimeout = COMMAND_CONNECT_S,
    master: Master = None,
    conf: Conf = None,
    secrets: Secrets = None,
) -> None:
    """Compare every copied record with its copy: key, value, headers, timestamp, order. Writes nothing to clusters.

    The flow may run meanwhile: the comparison ends at its last stored position. The answer names records that retention
    or compaction has deleted, and counts no difference.

    Exit codes: 0 every compared record is equal; 1 a record differs, a whole partition stayed uncompared, or the
    statement of --against was altered; 2; 3; 4.

    Example: twinlog verify mm2.properties --flow east:west --topic orders --topic 'payments.*'

    Example: twinlog verify mm2.properties --since 2026-11-20T08:00:00Z -o json

    Example: twinlog verify --url http://connect-1:8083 --topic orders

    Example: twinlog verify mm2.properties --sign proof.key --statement proof.json

    Example: twinlog verify mm2.properties --against proof.json --key proof.key.pub.pem
    """
    spark_master, settings = spark_options(master, conf)
    if against is None and (key is not None or target_only):
        raise typer.BadParameter("it counts only with --against", param_hint="--key" if key else "--target-only")
    if against is not None:
        _refuse_beside_against(
            {
                "--topic": topic,
                "--since": since,
                "--until": until,
                "--every-record": every_record,
                "--ignore-foreign": ignore_foreign,
                "--sign": sign,
                "--statement": statement,
            }
        )
    checked = None if against is None else checked_statement(against, key)
    signer = signer_of(sign, statement)
    since_ms, until_ms = moment_ms(since, "--since"), moment_ms(until, "--until")
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise typer.BadParameter(
            f"the range from {since} to {until} is empty: --since must be the earlier time",
            param_hint="--since",
        )
    with ends_if_wrong(WRONG):
        known = read_flows_asked(file, connectors or [], secrets, url, logins).flows
    flows = [] if checked is not None and flow is None else _copying(known, flow)
    log_warnings()
    stop = SparkSignalHandler()
    signals.call(stop)
    spark = _SparkRun(spark_master, settings, stop)
    if checked is not None:
        names = None if flow is None else [one.name for one in flows]
        _recheck(checked, known, names, spark, target_only, timeout, output, everything)
        return

    from twinlog.ops.verify.planner import VerifyOptions  # noqa: PLC0415
    from twinlog.ops.verify.statement import RANGE_RECORDS, state_comparison  # noqa: PLC0415
    from twinlog.ops.verify.verify_lines import verdict_lines  # noqa: PLC0415 - Spark is slow to import, --help must not wait

    ranges = 0 if signer is None else RANGE_RECORDS
    options = VerifyOptions(topic_expressions(topic), since_ms, until_ms, every_record, ignore_foreign, ranges)
    try:
        plans, failed = _plans(flows, options, timeout)
        found, seconds = _compare(plans, spark)
    except TwinlogError as error:
        stop.end_command(error)
    print_result(
        output,
        lambda: _as_json(found, seconds, failed),
        lambda: verdict_lines(found, seconds, failed, everything=everything, identical=partial(_keeps_offsets, flows)),
    )
    if signer is not None and statement is not None:
        write_statement(statement, state_comparison(plans, found, failed, signer, SYSTEM.wall()), signer)
    if any(one.equal is not True or one.problem is not None for one in found):
        raise typer.Exit(FOUND)
    if failed:
        raise typer.Exit(UNREACHABLE)


def _keeps_offsets(flows: Sequence[FlowSettings], flow: str, topic: str) -> bool:
    return any(one.name == flow and one.keeps_offsets(TopicName(topic)) for one in flows)


def _copying(known: Sequence[FlowSettings], flow: str | None) -> list[FlowSettings]:
    return chosen(known, flow, fits=lambda one: one.kind in (None, "source"), doing="that copies", idle=True)


def _refuse_beside_against(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value:
            raise typer.BadParameter("--against has the ranges of its statement: leave it out", param_hint=option)


@dataclass(frozen=True, slots=True)
class _SparkRun:
    """How the command runs Spark."""

    master: str | None
    conf: dict[str, str]
    stop: SparkSignalHandler


def _compare(plans: Sequence[VerifyPlan], spark: _SparkRun) -> tuple[list[Verdict], float]:
    """A row of each partition, and how many seconds the comparison took."""
    parts = [part for plan in plans for part in plan.parts]
    if not any(part.sections for part in parts):
        # All sections are empty, so Spark stays off.
        from twinlog.ops.verify.model import Verdict  # noqa: PLC0415

        return _sorted([Verdict.of(part).without_sections() for part in parts]), 0.0
    from twinlog.ops.verify.job import need_of_verification, run_verification  # noqa: PLC0415

    found = run_in_spark(
        lambda engine, address: run_verification(engine, plans, address),
        spark.master,
        spark.conf,
        spark.stop,
        need=need_of_verification(plans),
        doing=f"comparing {counted(len(parts), 'partition')}",
        offsets=sum(part.offsets for part in parts),
    )
    return _sorted(found), _seconds(found)


def _recheck(
    statement: Statement,
    known: Sequence[FlowSettings],
    names: Sequence[str] | None,
    spark: _SparkRun,
    target_only: bool,
    connect_s: float,
    output: DataFormat,
    everything: bool,
) -> None:
    """Compare the clusters with a statement; `names` are flows, None means all flows of the statement."""
    from twinlog.ops.verify.recheck_planner import RecheckPlanner, flows_to_recheck  # noqa: PLC0415
    from twinlog.ops.verify.verify_lines import recheck_lines  # noqa: PLC0415

    def plan(pair: tuple[FlowSettings, StatedFlow], progress: ReadingProgress) -> RecheckPlan:
        with RecheckPlanner(*pair, target_only=target_only, progress=progress, connect_s=connect_s) as planner:
            return planner.plan()

    try:
        pairs = flows_to_recheck(statement, known, names)
        plans, failed = _plan_each([(pair[0].name, partial(plan, pair)) for pair in pairs])
        found = _read_again(plans, spark)
    except TwinlogError as error:
        spark.stop.end_command(error)
    print_result(
        output,
        lambda: _recheck_json(statement, found, failed),
        lambda: recheck_lines(found, failed, everything=everything),
    )
    if any(one.equal is not True for one in found):
        raise typer.Exit(FOUND)
    if failed:
        raise typer.Exit(UNREACHABLE)


def _read_again(plans: Sequence[RecheckPlan], spark: _SparkRun) -> list[RecheckVerdict]:
    """A row of each partition of a statement."""
    parts = [part for plan in plans for part in plan.parts]
    if not parts:
        return []
    from twinlog.ops.verify.job import need_of_verification, run_recheck  # noqa: PLC0415

    found = run_in_spark(
        lambda engine, address: run_recheck(engine, plans, address),
        spark.master,
        spark.conf,
        spark.stop,
        need=need_of_verification(plans),
        doing=f"reading {counted(len(parts), 'partition')}",
        offsets=sum(part.offsets for part in parts),
    )
    return sorted(found, key=lambda one: (one.flow, one.topic, one.partition))


def _seconds(found: Sequence[Verdict]) -> float:
    """The seconds from the begin of the first partition to the end of the last: Spark itself takes seconds to start."""
    spans = [one.span for one in found if one.span is not None]
    return max(end for _, end in spans) - min(begin for begin, _ in spans) if spans else 0.0


def _plans(
    flows: Sequence[FlowSettings], options: VerifyOptions, connect_s: float
) -> tuple[list[VerifyPlan], dict[str, str]]:
    """The plan of each flow, as in `_plan_each`."""
    from twinlog.ops.verify.planner import VerifyPlanner  # noqa: PLC0415

    def plan(settings: FlowSettings, progress: ReadingProgress) -> VerifyPlan:
        with (
            VerifyPlanner(settings, options, progress=progress, connect_s=connect_s) as planner,
            waits_reported([planner]),
        ):
            return planner.plan()

    return _plan_each([(settings.name, partial(plan, settings)) for settings in flows])


def _plan_each(asked: Sequence[tuple[str, Callable[[ReadingProgress], P]]]) -> tuple[list[P], dict[str, str]]:
    """The plan of each flow, or, by the name of the flow, the obstacle to its plan: a silent cluster may belong to some
    flows only.

    Raises the error where no flow has a plan.
    """
    from twinlog.console.progress import ReadingProgress  # noqa: PLC0415

    plans: list[P] = []
    failed: dict[str, str] = {}
    last: TwinlogError | None = None
    for name, plan in asked:
        try:
            with ReadingProgress() as progress:
                plans.append(plan(progress))
        except ClusterError as error:
            last = error
            failed[name] = failure_text(error)
    if last is not None and not plans:
        for name, problem in list(failed.items())[:-1]:
            print_error(id_first(f"flow {name}: {problem}"))
        raise last
    return plans, failed


def _sorted(found: Sequence[Verdict]) -> list[Verdict]:
    return sorted(found, key=lambda one: (one.flow, one.topic, one.partition))


def _as_json(found: Sequence[Verdict], seconds: float, failed: Mapping[str, str]) -> dict[str, object]:
    states = {one.equal for one in found}
    unknown = None in states or bool(failed) or any(one.problem for one in found)
    return {
        "equal": False if False in states else None if unknown else True,
        "records": sum(one.records for one in found),
        "bytes": sum(one.bytes for one in found),
        "differences": sum(one.differences for one in found),
        "seconds": round(seconds, 3),
        "partitions": [one.as_json() for one in found],
        "flows_not_compared": _problems(failed),
    }


def _recheck_json(
    statement: Statement, found: Sequence[RecheckVerdict], failed: Mapping[str, str]
) -> dict[str, object]:
    states = {one.equal for one in found}
    return {
        "statement": statement.as_json(),
        "equal": False if False in states else None if None in states or failed else True,
        "records": sum(one.records for one in found),
        "partitions": [one.as_json() for one in found],
        "flows_not_compared": _problems(failed),
    }


def _problems(failed: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"flow": name, "problem": problem} for name, problem in failed.items()]

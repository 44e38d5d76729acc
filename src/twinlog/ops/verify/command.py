"""`twinlog verify`: whether copies are equal to their sources, record by record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.console import signals
from twinlog.console.command_log import ends_if_wrong, log_warnings, print_error
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
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.message_ids import id_first
from twinlog.ops.running_worker import read_flows_asked

if TYPE_CHECKING:
    from twinlog.ops.verify.model import Verdict
    from twinlog.ops.verify.planner import VerifyOptions, VerifyPlan
    from twinlog.settings.flow import FlowSettings


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
    everything: Everything = False,
    output: Output = DataFormat.TABLE,
    timeout: AnswerTimeout = COMMAND_CONNECT_S,
    master: Master = None,
    conf: Conf = None,
    secrets: Secrets = None,
) -> None:
    """Compare every copied record with its copy: key, value, headers, timestamp, order. Writes nothing.

    The flow may run meanwhile: the comparison ends at its last stored position. The answer names records that retention
    or compaction has deleted, and counts no difference.

    Exit codes: 0 every compared record is equal; 1 a record differs, or a whole partition stayed uncompared; 2; 3; 4.

    Example: twinlog verify mm2.properties --flow east:west --topic orders --topic 'payments.*'

    Example: twinlog verify mm2.properties --since 2026-11-20T08:00:00Z -o json

    Example: twinlog verify --url http://connect-1:8083 --topic orders
    """
    spark_master, settings = spark_options(master, conf)
    since_ms, until_ms = moment_ms(since, "--since"), moment_ms(until, "--until")
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise typer.BadParameter(
            f"the range from {since} to {until} is empty: --since must be the earlier time",
            param_hint="--since",
        )
    with ends_if_wrong(WRONG):
        known = read_flows_asked(file, connectors or [], secrets, url, logins).flows
    flows = chosen(known, flow, fits=lambda one: one.kind in (None, "source"), doing="that copies", idle=True)
    log_warnings()
    stop = SparkSignalHandler()
    signals.call(stop)

    from twinlog.ops.verify.planner import VerifyOptions  # noqa: PLC0415
    from twinlog.ops.verify.verify_lines import verdict_lines  # noqa: PLC0415 - Spark is slow to import, --help must not wait

    options = VerifyOptions(topic_expressions(topic), since_ms, until_ms, every_record, ignore_foreign)
    try:
        plans, failed = _plans(flows, options, timeout)
        found, seconds = _compare(plans, spark_master, settings, stop)
    except TwinlogError as error:
        stop.end_command(error)
    print_result(
        output,
        lambda: _as_json(found, seconds, failed),
        lambda: verdict_lines(found, seconds, failed, everything=everything),
    )
    if any(one.equal is not True or one.problem is not None for one in found):
        raise typer.Exit(FOUND)
    if failed:
        raise typer.Exit(UNREACHABLE)


def _compare(
    plans: Sequence[VerifyPlan], master: str | None, conf: dict[str, str], stop: SparkSignalHandler
) -> tuple[list[Verdict], float]:
    """A row of each partition, and how many seconds the comparison took."""
    parts = [part for plan in plans for part in plan.parts]
    if not any(part.sections for part in parts):
        # All sections are empty, so Spark stays off.
        from twinlog.ops.verify.model import Verdict  # noqa: PLC0415

        return _sorted([Verdict.of(part).without_sections() for part in parts]), 0.0
    from twinlog.ops.verify.job import need_of_verification, run_verification  # noqa: PLC0415

    found = run_in_spark(
        lambda engine, address: run_verification(engine, plans, address),
        master,
        conf,
        stop,
        need=need_of_verification(plans),
        doing=f"comparing {len(parts)} partitions",
        offsets=sum(part.offsets for part in parts),
    )
    return _sorted(found), _seconds(found)


def _seconds(found: Sequence[Verdict]) -> float:
    """The seconds from the begin of the first partition to the end of the last: Spark itself takes seconds to start."""
    spans = [one.span for one in found if one.span is not None]
    return max(end for _, end in spans) - min(begin for begin, _ in spans) if spans else 0.0


def _plans(
    flows: Sequence[FlowSettings], options: VerifyOptions, connect_s: float
) -> tuple[list[VerifyPlan], dict[str, str]]:
    """The plan of each flow, or, by the name of the flow, the obstacle to its plan: a silent cluster may belong to some
    flows only.

    Raises the error where no flow has a plan.
    """
    from twinlog.console.progress import ReadingProgress  # noqa: PLC0415
    from twinlog.ops.verify.planner import VerifyPlanner  # noqa: PLC0415

    plans: list[VerifyPlan] = []
    failed: dict[str, str] = {}
    last: TwinlogError | None = None
    for settings in flows:
        try:
            with (
                ReadingProgress() as progress,
                VerifyPlanner(settings, options, progress=progress, connect_s=connect_s) as planner,
            ):
                plans.append(planner.plan())
        except ClusterError as error:
            last = error
            failed[settings.name] = failure_text(error)
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
        "flows_not_compared": [{"flow": name, "problem": problem} for name, problem in failed.items()],
    }

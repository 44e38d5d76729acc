"""`twinlog audit`: a report about the mirror that runs today."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.clock import SYSTEM, wall_ms
from twinlog.config.file_kind import FileKind, known_kind
from twinlog.console import signals
from twinlog.console.command_log import ends_if_wrong, log_checks, print_error
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FOUND, WRONG
from twinlog.console.flow_files import FlowsOfFile
from twinlog.console.options import (
    SAMPLE_RECORDS,
    AnyFlow,
    ClusterLogins,
    Conf,
    ConnectorFiles,
    Everything,
    FileOrWorker,
    Master,
    Output,
    SampleSize,
    Secrets,
    Was,
    WholeComparison,
    WorkerUrl,
    chosen,
    kafka_release,
    spark_options,
)
from twinlog.console.spark_batch import SparkSignalHandler
from twinlog.errors import ClusterError, TwinlogError
from twinlog.errors.message_ids import told
from twinlog.ops.running_worker import read_flows_asked

if TYPE_CHECKING:
    from twinlog.console.progress import ReadingProgress
    from twinlog.ops.audit.auditor import AuditDeadline, AuditOptions
    from twinlog.ops.audit.records import CompareRanges
    from twinlog.ops.audit.report import FlowAudit
    from twinlog.settings.flow import FlowSettings


def audit(
    file: FileOrWorker = None,
    connectors: ConnectorFiles = None,
    flow: AnyFlow = None,
    url: WorkerUrl = None,
    logins: ClusterLogins = None,
    full: WholeComparison = False,
    sample: SampleSize = SAMPLE_RECORDS,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Stop before the next part or range after this time; the report names the missing parts.",
            show_default=False,
        ),
    ] = None,
    was: Was = None,
    output: Output = DataFormat.TABLE,
    html: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Also write the report to this file, as HTML.", show_default=False),
    ] = None,
    everything: Everything = False,
    master: Master = None,
    conf: Conf = None,
    secrets: Secrets = None,
) -> None:
    """Report on the mirror that runs today, by MirrorMaker 2 or by twinlog. Changes nothing.

    The report has missing, doubled and changed records, gaps, the records that each group would skip or repeat on a
    failover, the lag, topics outside the filter, ignored keys, differences of settings and ACLs, and the changes under
    twinlog. The mirror copies meanwhile.

    Exit codes: 0 the report is clean; 1 it has a finding, or a part is left out; 2; 3; 4.

    Example: twinlog audit mm2.properties --html audit.html

    Example: twinlog audit mm2.properties --flow east:west --full --was 3.9 -o json

    Example: twinlog audit --url http://connect-1:8083
    """
    spark_master, settings = spark_options(master, conf)
    _check_place(html)
    release = kafka_release(was)
    if release is not None and (file is None or known_kind(file) is not FileKind.MIRROR):
        raise typer.BadParameter(f"{file or 'a worker'} is no properties file of MirrorMaker 2", param_hint="--was")
    with ends_if_wrong(WRONG):
        known = read_flows_asked(file, connectors or [], secrets, url, logins, unknown_keys="warn")
    flows = chosen(known.flows, flow, idle=True)
    log_checks()
    stop = SparkSignalHandler("; both clusters are as before")
    signals.call(stop)

    from twinlog.console.progress import ReadingProgress  # noqa: PLC0415 - Spark is slow to import, --help must not wait
    from twinlog.ops.audit.auditor import AuditDeadline, AuditOptions  # noqa: PLC0415
    from twinlog.ops.audit.clusters import keys_found, release_found  # noqa: PLC0415
    from twinlog.ops.audit.comparing import compare_all, compare_sample  # noqa: PLC0415
    from twinlog.ops.audit.rendering import report_html, report_lines  # noqa: PLC0415
    from twinlog.ops.audit.report import AuditReport  # noqa: PLC0415

    deadline = AuditDeadline(SYSTEM, timeout)
    try:
        with ReadingProgress() as progress:
            compare = compare_all(spark_master, settings, stop) if full else compare_sample(progress)
            audits = _audits(flows, known, compare, AuditOptions(full, sample), deadline, progress)
    except TwinlogError as error:
        stop.end_command(error)
    if stop.number is not None:
        stop.end_command(ClusterError("the audit was interrupted"))
    of_file = [keys_found(known.warnings), *([] if release is None or file is None else [release_found(file, release)])]
    report = AuditReport(str(file or url), wall_ms(SYSTEM), tuple(of_file), tuple(audits))
    written = html is None or _write(html, report_html(report))
    print_result(output, report.as_json, lambda: report_lines(report, everything=everything))
    if not written:
        raise typer.Exit(WRONG)
    if report.findings or not report.complete:
        raise typer.Exit(FOUND)


def _audits(
    flows: Sequence[FlowSettings],
    known: FlowsOfFile,
    compare: CompareRanges,
    options: AuditOptions,
    deadline: AuditDeadline,
    progress: ReadingProgress,
) -> list[FlowAudit]:
    """The audit of each flow; a flow whose cluster is silent is in the report, unless all are."""
    from twinlog.ops.audit.auditor import FlowAuditor  # noqa: PLC0415
    from twinlog.ops.audit.report import AuditPart, FlowAudit, PartResult, unread_reason  # noqa: PLC0415

    found: list[FlowAudit] = []
    last: ClusterError | None = None
    reached = 0
    for one in flows:
        try:
            with FlowAuditor(
                one,
                known.flows,
                compare,
                worker=known.worker,
                options=options,
                deadline=deadline,
                progress=progress,
            ) as auditor:
                found.append(auditor.audit())
                reached += 1
        except ClusterError as error:
            last = error
            silent = PartResult(AuditPart.LAG, not_audited=unread_reason([told(error)]))
            found.append(FlowAudit(one.name, one.source, one.target, (silent,)))
    if last is not None and not reached:
        raise last
    return found


def _check_place(html: Path | None) -> None:
    """Raise BadParameter before the work if the file is unwritable."""
    if html is None:
        return
    if html.is_dir():
        raise typer.BadParameter(
            f"{html} is a directory; name a file in it, as {html / 'audit.html'}", param_hint="--html"
        )
    if not html.parent.is_dir():
        raise typer.BadParameter(f"the directory {html.parent} is missing; create it first", param_hint="--html")


def _write(path: Path, text: str) -> bool:
    """Whether the file was written."""
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        print_error(f"TW-USE-02: {path} is unwritable: {error.strerror}; name another file with --html")
        return False
    return True

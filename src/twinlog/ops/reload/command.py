"""`twinlog reload`: makes running processes take over the changes of their file."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.config.file_kind import FileKind, kind_of
from twinlog.config.keys.key import UpdateMode
from twinlog.config.queries import checked_file
from twinlog.console.command_log import ends_if_wrong, log_warnings, print_warnings, waits_reported
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FINE, FOUND, UNREACHABLE, WRONG
from twinlog.console.options import DryRun, Output
from twinlog.errors.message_ids import ID, with_id
from twinlog.model.amounts import counted

if TYPE_CHECKING:
    from twinlog.ops.reload.requests import ReloadAnswers
    from twinlog.worker.reload.reload_report import ReloadReport

_TAKES = {
    UpdateMode.AT_ONCE: "taken over",
    UpdateMode.PAUSE: "taken over, the copiers of the flow begin again",
    UpdateMode.RESTART: "NEEDS A RESTART [TW-RELOAD-02]",
    UpdateMode.NOTHING: "has no effect here",
}
_WOULD = {
    **_TAKES,
    UpdateMode.AT_ONCE: "would be taken over",
    UpdateMode.PAUSE: "would be taken over, the copiers of the flow would begin again",
}


def reload(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A MirrorMaker 2 properties file.", show_default=False)],
    dry_run: DryRun = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, help="Seconds to wait for the answers of the processes.")
    ] = 60.0,
    output: Output = DataFormat.TABLE,
) -> None:
    """Change a running mirror while it runs: every process that runs the flows of FILE reads its file again.

    Filters, intervals, the switches of sync and emit, policies and A->B.enabled act at once, or after a pause of a
    second or two; each record is copied once. All other keys are printed with their line, and keep their values until
    the process is restarted. A process whose file is wrong continues with the values of before.

    Each process reads the file of its own start: change the file on every host first. The command may run on any host
    that reaches the targets; request and answers are records of the topic mm2-twinlog-reload.internal there. On the
    host of a process, `kill -HUP PID` works without rights on a cluster, and the log of the process has the answer.

    Exit codes: 0 every process has taken over the whole file; 1 a key needs a restart, or all processes of the flows
    have ended; 2 FILE, or the file of a process, is wrong; 3 a process or a target is silent; 4.

    Example: twinlog reload mm2.properties

    Example: twinlog reload mm2.properties --dry-run
    """
    if kind_of(file) is not FileKind.MIRROR:
        raise typer.BadParameter(
            f"{file} is another kind than MirrorMaker 2's properties: Strimzi's resource is followed while it "
            "changes, and connectors are changed over the REST API of their worker",
            param_hint="FILE",
        )
    with ends_if_wrong(WRONG):
        config = checked_file(file, None, "warn").config
    if output is DataFormat.TABLE:
        print_warnings(config.warnings)
    log_warnings()

    from twinlog.ops.reload.requests import ReloadAsker  # noqa: PLC0415 - Kafka's library is slow to import for --help

    asker = ReloadAsker(config.flows, who(), only_look=dry_run, timeout_s=timeout)
    with waits_reported([asker]):
        asked = asker.request_reload()
    print_result(output, lambda: _data(asked), lambda: lines(asked))
    raise typer.Exit(exit_code(asked))


def who() -> str:
    """Who asks, for the log of the processes: USER on HOST."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        # A container may lack an entry for its own user.
        user = "an unnamed user"
    return f"{user} on {socket.gethostname()}"


def exit_code(asked: ReloadAnswers) -> int:
    """The exit code for scripts; the most urgent problem decides."""
    if any(report.problems for report in asked.reports):
        return WRONG
    if asked.troubles or asked.silent:
        return UNREACHABLE
    if asked.nobody:
        return FOUND
    return FOUND if any(report.needs_restart for report in asked.reports) else FINE


def lines(asked: ReloadAnswers) -> Iterator[str]:
    """The answers for people, process by process."""
    for report in asked.reports:
        yield from _report(report)
    for process, flows in asked.silent.items():
        names = ", ".join(flows)
        yield f"TW-RELOAD-08: {process} runs or waits for {names} and was silent: its version lacks the reload, it"
        yield "  lacks the right to read or write mm2-twinlog-reload.internal, or it hangs; on its host: kill -HUP PID"
    for flow, others in asked.others.items():
        yield with_id(f"{flow}: {others}", "TW-LEADER-01" if others.startswith("MirrorMaker 2") else "TW-LEADER-15")
    for target, trouble in asked.troubles.items():
        yield with_id(f"{target}: {trouble}", "TW-WAIT-01")
    if asked.nobody and not asked.troubles:
        yield "TW-RELOAD-09: every process that runs these flows, or waits for them, has ended"


def _report(report: ReloadReport) -> Iterator[str]:
    where = f"{report.process} ({report.file})"
    if report.problems:
        yield f"TW-RELOAD-01: {where}: its file is wrong, and its flows are as before"
        yield from (f"  {problem}" for problem in report.problems)
        return
    if report.same:
        yield f"{where}: its file is as before"
        return
    yield where
    how = _WOULD if report.only_looked else _TAKES
    for flow, state in report.flows.items():
        yield f"  {flow}: {state}"
        yield from (f"    {key.text}: {how[key.takes]}" for key in report.keys if flow in key.flows)
    rest = [key for key in report.keys if not set(key.flows).intersection(report.flows)]
    if rest:
        yield "  all of the file"
        yield from (f"    {key.text}: {how[key.takes]}" for key in rest)
    if report.more_keys:
        yield f"  and {counted(report.more_keys, 'more key')} in the log of the process"
    yield from (f"  {warning}" for warning in report.warnings)


def _data(asked: ReloadAnswers) -> dict[str, object]:
    return {
        "processes": [asdict(report) for report in asked.reports],
        "silent": {process: list(flows) for process, flows in asked.silent.items()},
        "others": dict(asked.others),
        "troubles": dict(asked.troubles),
        "ids": list(dict.fromkeys(name for line in lines(asked) for name in ID.findall(line))),
    }

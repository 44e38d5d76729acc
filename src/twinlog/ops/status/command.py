"""`twinlog status`: how the flows of a file do, wherever they run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.clock import SYSTEM
from twinlog.console.command_log import ends_if_wrong, log_warnings, waits_reported
from twinlog.console.data_format import DataFormat, shown_data
from twinlog.console.exit_codes import FINE, FOUND, UNREACHABLE, WRONG, end_with
from twinlog.console.options import (
    AnswerTimeout,
    AnyFlow,
    ClusterLogins,
    ConnectorFiles,
    FileOrWorker,
    Output,
    Secrets,
    WorkerUrl,
    chosen,
    duration_s,
)
from twinlog.errors import TwinlogError
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.ops.running_worker import read_flows_asked

if TYPE_CHECKING:
    from twinlog.ops.status.flow import FlowReader, FlowSnapshot

WATCH_S = 2.0
_RECORDS = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class MaxLag:
    """The most that a flow may lag behind, in records or in seconds."""

    most: float
    seconds: bool

    @classmethod
    def of(cls, text: str) -> MaxLag:
        """Parse a limit, for example `1000`, `30s` or `5m`. Raises BadParameter."""
        seconds = duration_s(text)
        if seconds is not None:
            return cls(seconds, True)
        if _RECORDS.fullmatch(text.strip()) is None:
            raise typer.BadParameter(
                f"{text!r}; write records as 1000, or a time as 30s, 5m or 1h", param_hint="--max-lag"
            )
        return cls(float(text), False)

    def kept_by(self, seen: FlowSnapshot) -> bool:
        """Whether a flow is known to be within the limit; a flow that leaves copying to another flow always is."""
        if not seen.settings.copies:
            return True
        if seen.lag is None or seen.unknown:
            return False
        if not self.seconds:
            return seen.lag <= self.most
        return seen.lag_s is not None and seen.lag_s <= self.most


def status(
    file: FileOrWorker = None,
    connectors: ConnectorFiles = None,
    url: WorkerUrl = None,
    logins: ClusterLogins = None,
    flow: AnyFlow = None,
    max_lag: Annotated[
        str | None,
        typer.Option(
            metavar="LAG",
            help="The most that a flow may lag behind: records, or a time as 30s or 5m.",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every two seconds until Ctrl-C; with -o json an object a line.")
    ] = False,
    output: Output = DataFormat.TABLE,
    timeout: AnswerTimeout = LOOK_CONNECT_S,
    secrets: Secrets = None,
) -> None:
    """Show the condition of flows, wherever they run: state, lag, rates, last error, groups, leader and standby.

    All figures come from the target, the place of the processes' reports: a process that died shows so within seconds.

    Exit codes: 0 every flow runs, within --max-lag; 1 a flow has ended, has held partitions, or is beyond --max-lag
    or of unknown lag; 2; 3; 4.

    Example: twinlog status mm2.properties --flow east:west --watch

    Example: twinlog status mm2.properties --max-lag 30s -o json

    Example: twinlog status --url http://connect-1:8083
    """
    limit = None if max_lag is None else MaxLag.of(max_lag)
    with ends_if_wrong(WRONG):
        known = read_flows_asked(file, connectors or [], secrets, url, logins)
    log_warnings()

    from twinlog.ops.status.flow import FlowReader  # noqa: PLC0415 - Kafka's library is slow to import for --help

    wanted = chosen(known.flows, flow)
    try:
        with ExitStack() as stack:
            readers = [stack.enter_context(FlowReader(one, known.worker, connect_s=timeout)) for one in wanted]
            if watch:
                _watch(readers, output)
            with waits_reported(readers):
                seen = read_all(readers)
    except TwinlogError as error:
        end_with(error)
    typer.echo(_text(seen, output))
    raise typer.Exit(exit_code(seen, limit))


def read_all(readers: Sequence[FlowReader]) -> list[FlowSnapshot]:
    """Return the snapshots of all readers, read at the same time: a silent cluster delays only its own flows."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    if len(readers) < 2:
        return [reader.read() for reader in readers]
    with ThreadPoolExecutor(min(len(readers), 16)) as pool:
        return list(pool.map(lambda reader: reader.read(), readers))


def exit_code(seen: Sequence[FlowSnapshot], limit: MaxLag | None) -> int:
    """The exit code for scripts, by the worst of all flows."""
    from twinlog.ops.status.state import FlowCondition  # noqa: PLC0415

    found = {one.state.condition for one in seen}
    if FlowCondition.UNKNOWN in found:
        return UNREACHABLE
    if not found or found != {FlowCondition.RUNNING}:
        return FOUND
    if any(one.report is not None and (one.report.held or one.report.missing) for one in seen):
        return FOUND
    return FINE if limit is None or all(limit.kept_by(one) for one in seen) else FOUND


def _text(seen: Sequence[FlowSnapshot], output: DataFormat, *, compact: bool = False) -> str:
    from twinlog.ops.status.status_text import flow_json, lines  # noqa: PLC0415

    if output is not DataFormat.TABLE:
        return shown_data({"flows": [flow_json(one) for one in seen]}, output, compact=compact)
    return "\n\n".join("\n".join(lines(one)) for one in seen)


def _watch(readers: Sequence[FlowReader], output: DataFormat) -> None:
    """Print again and again until a signal ends it; a terminal shows the newest only, with the time that it is of."""
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    def text(seen: Sequence[FlowSnapshot]) -> str:
        shown = _text(seen, output, compact=True)
        return shown if for_programs else f"{time.strftime('%H:%M:%S')}\n{shown}"

    console, for_programs = Console(), output is not DataFormat.TABLE
    if for_programs or not console.is_terminal:
        watch(lambda: text(read_all(readers)), lambda found: typer.echo(found + ("" if for_programs else "\n")), None)
        return
    with Live(console=console, auto_refresh=False) as live:

        def show(found: str) -> None:
            live.update(Text(found), refresh=True)

        watch(lambda: text(read_all(readers)), show, show)


def watch(
    look: Callable[[], str],
    show: Callable[[str], None],
    late: Callable[[str], None] | None,
    *,
    sleep: Callable[[float], None] = SYSTEM.sleep,
    every_s: float = WATCH_S,
) -> None:
    """Show the result of `look` again and again, until `look` raises.

    While `look` takes longer than usual, `late` is given the previous text and the age of that text: an operator takes
    a text on the screen for the present state.
    """
    from concurrent.futures import ThreadPoolExecutor, wait  # noqa: PLC0415

    before = ""
    with ThreadPoolExecutor(1) as pool:
        while True:
            begun = SYSTEM.monotonic()
            looking = pool.submit(look)
            while not wait([looking], every_s).done:
                if late is not None:
                    late(f"{before}\n\nno answer for {SYSTEM.monotonic() - begun:.0f} s, all above is older".strip())
            before = looking.result()
            show(before)
            sleep(every_s)

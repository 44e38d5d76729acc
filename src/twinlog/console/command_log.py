"""The lines of a command on stderr: its log, the problems of its file, and its waits once they take long."""

from __future__ import annotations

import copy
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, Protocol

import typer

from twinlog.clock import SYSTEM
from twinlog.console.log_options import LogFormat, chosen_log, json_line
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigWarning, Mistake, counts
from twinlog.model.topics import listed

if TYPE_CHECKING:
    from rich.console import Console

HOLD_S = 2.0
"""The seconds that a warning waits for equal warnings."""

_TOPICS, _FLOWS = "\0", "\1"
_FLOW = re.compile(r"(TW-[A-Z]+-\d\d: )?(\S+->\S+): (.*)", re.DOTALL)

EXIT_CONFIG = 2
"""A file that is wrong, with programs that would have copied."""

LONG_S = 2.0
AGAIN_S = 5.0


def print_error(text: str) -> None:
    """Print the error that ends a command, on stderr."""
    _print("error", text, f"twinlog: {text}")


def print_warning_line(text: str) -> None:
    """Print a line about a thing that the result lacks, or that is likely unintended, on stderr."""
    _print("warning", text, text)


def print_note(text: str, shown: str | None = None) -> None:
    """Print a line about the progress, or about a result, on stderr; -q leaves it out. `shown` is its form as text."""
    if not chosen_log().quiet:
        _print("info", text, text if shown is None else shown)


def _print(level: str, text: str, shown: str) -> None:
    typer.echo(json_line(level, text) if chosen_log().format is LogFormat.JSON else shown, err=True)


def log_to_stderr(terminal: Console | None = None) -> None:
    """Write the log to stderr, above the table on `terminal`, if it is given."""
    handler: logging.Handler
    if terminal is not None:
        from rich.logging import RichHandler  # noqa: PLC0415

        handler = RichHandler(console=terminal, show_path=False, markup=False, log_time_format="%H:%M:%S")
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(chosen_log().formatter("%(asctime)s %(levelname)s %(message)s"))
    # A program reads each object by itself.
    merged = handler if chosen_log().format is LogFormat.JSON else WarningMergeHandler(handler)
    logging.basicConfig(level=logging.WARNING, handlers=[merged])
    logging.getLogger("twinlog").setLevel(chosen_log().level(logging.INFO))
    # Lost connections are retried and reported by the flow they belong to.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def log_warnings() -> None:
    """Log warnings and errors, except those of Kafka's library: a command itself reports unreadable parts."""
    handler = logging.StreamHandler()
    handler.setFormatter(chosen_log().formatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("twinlog").setLevel(chosen_log().level(logging.WARNING))
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def log_checks() -> None:
    """Log only warnings that the output lacks: warnings of the checks before a run."""
    log_warnings()
    logging.getLogger("twinlog").setLevel(chosen_log().level(logging.CRITICAL))
    logging.getLogger("twinlog.mirror.topics.checks").setLevel(logging.WARNING)


def end_process(code: int) -> NoReturn:
    """End now: Spark's and Kafka's threads have finished their work, and waiting for them could take long."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@dataclass(slots=True)
class _Held:
    record: logging.LogRecord
    flows: dict[str, None] = field(default_factory=dict)
    topics: dict[str, None] = field(default_factory=dict)


class WarningMergeHandler(logging.Handler):
    """Passes records on to another handler, warnings of flows a little later, but before later records of their flows.

    A warning begins with the name of its flow. It may have `of`, topics that it lists: warnings that are equal
    but for these are joined, too.
    """

    def __init__(self, to: logging.Handler, hold_s: float = HOLD_S) -> None:
        super().__init__()
        self._to = to
        self._hold_s = hold_s
        self._held: dict[str, _Held] = {}
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        found = _FLOW.fullmatch(record.getMessage())
        if found is None or record.levelno != logging.WARNING or record.exc_info:
            # Otherwise a resumed flow would look as if it had just been stopped.
            self._pass_on({text: held for text, held in self._held.items() if found and found[2] in held.flows})
            self._to.handle(record)
            return
        message_id, flow, text = found.groups(default="")
        text = f"{message_id}{_FLOWS}{text}"
        topics = getattr(record, "of", ())
        held = self._held.setdefault(text.replace(listed(topics), _TOPICS, 1) if topics else text, _Held(record))
        held.flows[flow] = None
        held.topics.update(dict.fromkeys(topics))
        if self._timer is None:
            timer = threading.Timer(self._hold_s, self.flush)
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError:
                # Starting threads is impossible: the warning is written at once.
                self.flush()
            else:
                self._timer = timer

    def flush(self) -> None:
        """Log the waiting warnings."""
        self.acquire()
        try:
            self._timer = None
            self._pass_on(dict(self._held))
            self._to.flush()
        finally:
            self.release()

    def _pass_on(self, waiting: Mapping[str, _Held]) -> None:
        for text, held in waiting.items():
            del self._held[text]
            record = copy.copy(held.record)
            joined = text.replace(_TOPICS, listed(held.topics), 1)
            record.msg, record.args = joined.replace(_FLOWS, f"{', '.join(held.flows)}: ", 1), ()
            self._to.handle(record)


def print_problems(error: ConfigError) -> None:
    """Every warning and problem of a file, on stderr, and their counts."""
    print_mistake_lines((*error.warnings, *error.problems))
    print_note(counts((*error.warnings, *error.problems)))


def print_mistake_lines(mistakes: Sequence[Mistake]) -> None:
    """Each mistake of a file as a line, on stderr."""
    for mistake in mistakes:
        _print(mistake.level, str(mistake), mistake.line_for_editors)


def print_refusal(error: ConfigError) -> None:
    """The same, for a command that would have copied."""
    print_problems(error)
    print_note("nothing was started and no cluster was contacted")


def print_warnings(warnings: Sequence[ConfigWarning]) -> None:
    """Print settings that are legal in a file but surely unintended, on stderr.

    Keys that MirrorMaker 2 itself needs are printed with -v: `twinlog check` and the start of a run name them.
    """
    print_mistake_lines([one for one in warnings if chosen_log().verbose or not one.of_other_programs])


@contextmanager
def ends_if_wrong(code: int) -> Iterator[None]:
    """End the command with `code`, and the problems on stderr, if the block raises ConfigError."""
    try:
        yield
    except ConfigError as error:
        print_problems(error)
        raise typer.Exit(code) from None


class WaitingReader(Protocol):
    """Something that reads from clusters on another thread."""

    def waits(self) -> list[str]:
        """Its present waits, in words."""


@contextmanager
def waits_reported(
    readers: Sequence[WaitingReader], *, long_s: float = LONG_S, again_s: float = AGAIN_S
) -> Iterator[None]:
    """Print the waits of the readers after `long_s` seconds, and then every `again_s`."""
    over = threading.Event()

    def report() -> None:
        wait_s = long_s
        while not SYSTEM.wait(over, wait_s):
            for text in dict.fromkeys(text for reader in readers for text in reader.waits()):
                print_note(f"waiting: {text}", f"twinlog: waiting: {text}")
            wait_s = again_s

    thread = threading.Thread(target=report, name="waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

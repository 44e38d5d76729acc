"""Runs a guide: the files and commands of a page of the documentation, in their order, in one shell.

A fence of any language with `title="name"` is a file. A fence of `console` has commands after `$ ` (one that ends in
a backslash goes on) and below each the lines that it prints: each must be among the lines printed, in that order, with
other blanks where they stand; `...` is for lines, or the end of a line, that are left out. A
command that fails must be followed by `$ echo $?`. Jobs in the background are the shell's own: `&`, `kill %1`, `wait`.
Kafka's scripts are on the PATH, those of Connect in /opt/kafka/bin.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from harness.errors import HarnessError
from harness.jvm.command import jvm_command

SCRIPTS = {
    "connect-distributed": "org.apache.kafka.connect.cli.ConnectDistributed",
    "connect-mirror-maker": "org.apache.kafka.connect.mirror.MirrorMaker",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
}
_FENCE = re.compile(
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class File:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(slots=True)
class Command:
    """What the reader types, at a line of the page, and the lines that the page shows below it."""

    line: int
    text: str
    shown: list[str] = field(default_factory=list)
    may_fail: bool = False


def read_guide(text: str) -> list[File | Command]:
    """The steps of a page, in their order."""
    steps: list[File | Command] = []
    for fence in _FENCE.finditer(text):
        body = fence["body"]
        if fence["title"] is not None:
            steps.append(File(fence["title"], body))
        elif fence["language"] == "console":
            steps += _commands(body, text.count("\n", 0, fence.start("body")) + 1)
    for before, after in itertools.pairwise(steps):
        if isinstance(before, Command) and isinstance(after, Command) and after.text == "echo $?":
            before.may_fail = True
    return steps


def _commands(body: str, first: int) -> Iterator[Command]:
    command: Command | None = None
    goes_on = False
    for number, line in enumerate(body.splitlines(), first):
        if line.startswith("$ "):
            if command is not None:
                yield command
            command = Command(number, line[2:])
        elif command is None:
            raise HarnessError(f"line {number}: output before any command")
        elif goes_on:
            command.text += f"\n{line}"
        else:
            command.shown.append(line)
        goes_on = command is not None and not command.shown and line.endswith("\\")
    if command is not None:
        yield command


def missing_line(shown: list[str], printed: str) -> str | None:
    """The first shown line that was not printed in its turn."""
    lines = iter([_plain(line) for line in printed.splitlines()])
    for line in shown:
        begin, dots, _ = line.partition("...")
        if begin.strip() and not any(_shows(_plain(begin), bool(dots), one) for one in lines):
            return line
    return None


def _shows(begin: str, open_end: bool, line: str) -> bool:
    return line.startswith(begin) if open_end else line == begin


def _plain(line: str) -> str:
    return " ".join(re.sub(r"[─━]+", "-", line).split())


class GuideShell:
    """One shell in `home`; `names` are addresses in the page (`east:9092`) and what they are here."""

    def __init__(self, home: Path, names: Mapping[str, str], deadline_s: float = 300.0) -> None:
        self._home = home
        self._deadline_s = deadline_s
        programs, kafka = home / ".bin", home / ".kafka"
        self._names = {**names, "/opt/kafka/bin": str(kafka)}
        for name, main in SCRIPTS.items():
            # A script of ours has the same name as this one of Kafka's, and stands on the PATH.
            script = (kafka if name.startswith("connect") else programs) / f"{name}.sh"
            script.parent.mkdir(parents=True, exist_ok=True)
            command, own = jvm_command("256m", "quick", main)[:-1], "info" if script.parent == kafka else "warn"
            command += [f"-Dorg.slf4j.simpleLogger.defaultLogLevel={own}", main]
            script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            script.chmod(0o755)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=home,
            env={**os.environ, "PATH": path, "COLUMNS": "120", "TERM": "dumb"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._typed = 0
        self.printed: list[str] = []
        """All that was typed and printed, for whoever has to find out what went wrong."""

    def __enter__(self) -> GuideShell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._shell.pid, number)
                self._shell.wait(20)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.close()
        self._shell.stdout.close()

    def follow(self, steps: list[File | Command]) -> None:
        """Do every step. Raises HarnessError with all that was printed at the first that does not do as it says."""
        for step in steps:
            if isinstance(step, File):
                (self._home / step.name).write_text(self._here(step.text), encoding="utf-8")
                continue
            code, printed = self._type(self._here(step.text))
            self.printed.append(f"$ {step.text}\n{printed}")
            if code != 0 and not step.may_fail:
                raise self._trouble(f"line {step.line}: {step.text!r} ended with code {code}")
            missing = missing_line(step.shown, printed)
            if missing is not None:
                raise self._trouble(f"line {step.line}: {step.text!r} does not print {missing!r}")

    def _here(self, text: str) -> str:
        for name, real in self._names.items():
            text = text.replace(name, real)
        return text

    def _there(self, text: str) -> str:
        for name, real in self._names.items():
            text = text.replace(real, name)
        return text

    def _type(self, command: str) -> tuple[int, str]:
        self._typed += 1
        end = f"end-of-command-{self._typed}-of-{os.getpid()}"
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        # The code of the last command is kept for `echo $?`.
        self._shell.stdin.write(f"(exit $code); {command}\ncode=$?; printf '\\n%s %s\\n' {end} $code\n")
        self._shell.stdin.flush()
        late = threading.Timer(self._deadline_s, self._shell.kill)
        late.start()
        lines: list[str] = []
        try:
            for line in self._shell.stdout:
                if line.startswith(end):
                    return int(line.split()[1]), self._there("".join(lines).removesuffix("\n"))
                lines.append(line)
        finally:
            late.cancel()
        raise self._trouble(
            f"{command!r} took longer than {self._deadline_s:.0f} s, or ended the shell:\n{''.join(lines)}"
        )

    def _trouble(self, what: str) -> HarnessError:
        logs = [f"--- {log.name}\n{self._there(log.read_text(errors='replace'))}" for log in self._home.glob("*.log")]
        return HarnessError("\n".join([what, "", *self.printed, *logs]))

"""Ctrl-C and SIGTERM at any moment, from a command's first line on: one line, no stack trace, and its exit code."""

from __future__ import annotations

import os
import pty
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from harness.wait import wait_for
from tests.unit.config.files import kafkas_files
from twinlog.console import signals

DEADLINE_S = 120.0
FILE = "clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = 127.0.0.1:1\na->b.enabled = true\n"
COMMANDS = {
    "run": (("twinlog", "run", "FILE"), 0),
    "until": (("twinlog", "run", "FILE", "--until-caught-up"), None),
    "until, as before": (("twinlog", "run", "FILE", "--until=caught-up"), None),
    "check": (("twinlog", "check", "FILE"), None),
    "translate": (("twinlog", "translate", "FILE", "--group", "g"), None),
    "connect-standalone": (("twinlog.cli.connect_standalone", "WORKER"), 0),
    "connect-mirror-maker": (("twinlog.connect_mirror_maker", "FILE"), 0),
}
"""Each command with its code after a signal; None for the code of an interrupted command."""

# Sends itself the signal at the nth thing that it does: imports, opens, starts, connects.
AT_THE_NTH = """
import os, runpy, sys
module, number, left = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.argv[:] = [module, *sys.argv[4:]]

def begin(*_):
    def count(event, arguments):
        global left
        left -= 1
        if left in (0, -1):
            os.kill(os.getpid(), number)
    sys.addaudithook(count)

import twinlog.console.signals as signals
really = signals.end_at_once
def end_at_once(*arguments, **named):
    really(*arguments, **named)
    begin()
signals.end_at_once = end_at_once
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    worker = kafkas_files.STANDALONE.replace("localhost:9092", "127.0.0.1:1").replace("/tmp", str(tmp_path))
    file.with_name("worker.properties").write_text(worker + "listeners = http://127.0.0.1:0\n")
    return file


def words_of(command: str, file: Path) -> list[str]:
    """A command's module and arguments."""
    files = {"FILE": str(file), "WORKER": str(file.with_name("worker.properties"))}
    return [files.get(word, word) for word in COMMANDS[command][0]]


def check_end(command: str, number: signal.Signals, code: int, errors: str) -> None:
    """One line that names the signal, and the code of that command."""
    expected = COMMANDS[command][1]
    assert code == (signals.INTERRUPTED if expected is None else expected), errors
    assert "Traceback" not in errors
    named = [line for line in errors.splitlines() if number.name in line]
    assert len(named) == 1, errors
    assert re.search(rf"ended by {number.name}$|stopping \({number.name}\)$", named[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("command", ["run", "check", "connect-mirror-maker", "connect-standalone"])
def test_a_signal_at_the_nth_thing_that_a_command_does(
    file: Path, command: str, number: signal.Signals, chance: random.Random
) -> None:
    module, *words = words_of(command, file)
    # `check` does some five thousand things, of which most are imports.
    place = round(chance.uniform(0, 7.4) ** 4)
    program = [sys.executable, "-c", AT_THE_NTH, module, str(int(number)), str(place), *words]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    check_end(command, number, done.returncode, done.stderr)


def caught(pid: int) -> bool:
    """Whether a process handles SIGTERM itself, as Python does not by default."""
    mask = re.search(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return mask is not None and bool(int(mask[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_two_signals_in_a_row_at_any_moment(file: Path, command: str, chance: random.Random) -> None:
    module, *words = words_of(command, file)
    number = chance.choice((signal.SIGINT, signal.SIGTERM))
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with process:
        assert process.stderr is not None
        wait_for(lambda: process.poll() is not None or caught(process.pid), DEADLINE_S, "it has begun", every_s=0.0005)
        time.sleep(chance.choice((0.0, chance.uniform(0.0, 0.5), chance.uniform(0.0, 8.0))))
        for _ in range(2):
            # As a terminal does: all that it has started hears of it, too.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        errors = process.stderr.read()
        code = process.wait(DEADLINE_S)
    if command in {"check", "translate"} and code in (0, 1, 3) and number.name not in errors:
        # It was faster, or did not reach a cluster.
        return
    check_end(command, number, code, errors)


def test_a_command_that_was_started_in_the_background_ignores_ctrl_c(file: Path) -> None:
    program = f"trap '' INT; exec {sys.executable} -m twinlog run {file}"
    with subprocess.Popen(["/bin/sh", "-c", program], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        wait_for(lambda: caught(process.pid), DEADLINE_S, "it has begun", every_s=0.001)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        check_end("run", signal.SIGTERM, process.wait(DEADLINE_S), process.stderr.read())


# A class of the user's, or a tool that is loaded into the process, may have a signal of its own.
ANOTHER = """
import os, signal, sys, threading, time
from twinlog.console import signals

taken = threading.Event()
signal.signal(signal.SIGUSR2, lambda *_: taken.set())
stopped = []
ended = threading.Event()
signals.call(lambda number: (stopped.append(number), ended.set()))
os.kill(os.getpid(), signal.SIGUSR2)
taken.wait()
os.kill(os.getpid(), signal.SIGTERM)
ended.wait()
print([number.name for number in stopped])
"""


def test_a_signal_that_somebody_else_handles_ends_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ANOTHER], capture_output=True, text=True, check=True, timeout=DEADLINE_S
    )
    assert done.stdout == "['SIGTERM']\n"


def test_nothing_is_loaded_before_a_signal_ends_the_process_with_one_line() -> None:
    # While these are imported Ctrl-C prints a stack trace.
    program = "import sys; before = set(sys.modules); import twinlog.console.signals; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__future__", "twinlog", "twinlog.console", "twinlog.console.signals"}
    for module in ("__main__", "launcher", "connect_mirror_maker", "cli/connect_distributed", "cli/connect_standalone"):
        source = Path(signals.__file__).parents[1] / f"{module}.py"
        top = [line for line in source.read_text().splitlines() if re.match(r"(import|from) ", line)]
        allowed = {"errno", "os", "sys", "twinlog.console.signals", "twinlog.__main__", "__future__"}
        assert {line.split()[1] for line in top} <= allowed, source


# A program that reads its file again; it prints what the signals were for, and ends with SIGTERM.
READING = """
import os, signal, sys, threading
from twinlog.console import signals

signals.end_at_once("reading", serves=True, reloads=True)
if "early" in sys.argv:
    os.kill(os.getpid(), signal.SIGHUP)
ended = threading.Event()
told = lambda *words: os.write(1, (" ".join(words) + chr(10)).encode())
signals.call(lambda number: (told("stop", number.name), ended.set()), lambda: told("read"))
told("ready")
ended.wait()
os._exit(0)
"""


@pytest.mark.parametrize("before", ["", "trap '' HUP; "], ids=["plain", "nohup"])
@pytest.mark.parametrize("early", [True, False])
def test_a_hangup_has_a_file_read_again_whenever_it_comes(before: str, *, early: bool) -> None:
    program = f"{before}exec {sys.executable} -c '{READING}' {'early' if early else ''}"
    with subprocess.Popen(
        ["/bin/sh", "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        # Both are said by threads of their own.
        said = {process.stdout.readline().strip() for _ in range(1 + early)}
        assert said == ({"read", "ready"} if early else {"ready"})
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "read\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stop SIGTERM\n"
        assert process.wait(DEADLINE_S) == 0


def test_a_program_whose_terminal_goes_ends_in_order() -> None:
    """Somebody closes the window, or the connection breaks."""
    out, into = os.pipe()
    pid, terminal = pty.fork()
    if not pid:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.dup2(into, 1)
        os.execv(sys.executable, [sys.executable, "-c", READING])
    os.close(into)
    with os.fdopen(out) as said:
        assert said.readline() == "ready\n"
        # From a terminal that is still there it is a request.
        os.kill(pid, signal.SIGHUP)
        assert said.readline() == "read\n"
        os.close(terminal)
        assert said.readline() == "stop SIGHUP\n"
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_command_that_reads_no_file_again_ends_with_a_hangup_as_ever(file: Path) -> None:
    module, *words = words_of("connect-standalone", file)
    # Under `nohup` tests would hand on that they ignore it.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        process = subprocess.Popen([sys.executable, "-m", module, *words], stderr=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGHUP, before)
    try:
        wait_for(lambda: caught(process.pid), DEADLINE_S, "it has begun", every_s=0.001)
        process.send_signal(signal.SIGHUP)
        assert process.wait(DEADLINE_S) == -signal.SIGHUP
    finally:
        process.kill()
        process.wait()

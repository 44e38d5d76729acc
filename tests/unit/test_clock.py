"""Nothing in the package asks the system for the time by itself: it gets a clock from outside."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import monotonic_start
from twinlog.clock import SYSTEM

SOURCE = Path(__file__).parents[2] / "src" / "twinlog"

BY_THEMSELVES = {
    "clock.py": "is the clock",
    "process/jvm.py": "looks how old files of this machine are",
    "transforms/sql/": "waits for a JVM, which is a process of this machine",
    "spark/": "waits for a JVM and for workers, which are processes of this machine",
}
"""Who may ask the system, and why."""

OUTERMOST = {
    "clock.py": "is the clock",
    "kafka/net/loop.py": "is a loop that nobody gives a clock",
    "kafka/admin/cluster.py": "makes such a loop for connections that nobody gives one",
    "copier/copier_thread.py": "makes the loop of a task",
    "connect/worker.py": "is a worker of Connect, a process of its own",
    "process/flow_levels.py": "has the levels of a process's own log",
    "client.py": "is called by programs of others",
    "mirroring.py": "is called by programs of others",
    "transforms/sql/transform.py": "is the one JVM of a process, whose start takes its own time",
    "cli/": "is a program's beginning",
    "console/": "is a part of each program",
    "spark/dataframes/range_reader.py": "makes the loop of a task that reads rows",
    "ops/verify/command.py": "is a command",
    "ops/verify/task.py": "makes the loop of a task that compares",
    "ops/running_worker.py": "reads the flows of a command, a program's beginning",
    "ops/replay/task.py": "makes the loop of a task that replays",
    "spark/dataframes/writer.py": "makes the loop of a task that writes rows",
    "spark/dataframes/topic_source.py": "is called in processes of Spark's",
    "spark/class_archive.py": "is a program of its own",
    "ops/audit/command.py": "is a command",
    "ops/canary/commands.py": "is a command",
    "ops/connectors/options.py": "is a command",
    "ops/reload/command.py": "is a command",
    "ops/replay/job.py": "is a command's job",
    "ops/status/command.py": "is a command",
    "ops/switchover/session.py": "is a command",
    "ops/topics/asking.py": "is a part of a command",
    "ops/verify/job.py": "is a command's job",
    "ui/command.py": "is a command",
}
"""Where the system's clock is named, beside defaults."""

WAITING = {
    "cli/": "is a program's beginning",
    "console/": "is a part of each program",
    "connect/rest/serving.py": "waits for a web server, which has a loop of its own",
    "lease/lease_server.py": "cuts off callers of a real socket",
    "worker/runner.py": "kills a JVM that hangs, and may be in a signal's handler",
    "copier/copier_thread.py": "beats on a thread of its own, while the loop that has the clock is held up",
}
"""Who lets a thread wait, or a timer run, by the system's time."""

MOMENT = re.compile(r"(^|_)(at|since|until|before|by)$")
"""What a moment is called."""

ASKS = {"monotonic", "monotonic_ns", "time", "time_ns", "sleep", "perf_counter"}


@cache
def texts() -> list[tuple[str, str]]:
    return [(path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def files(excluded: dict[str, str], *words: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules that are not excluded and have one of the words; to parse the others would take seconds."""
    return (
        (name, parsed(text))
        for name, text in texts()
        if not name.startswith(tuple(excluded)) and any(word in text for word in words)
    )


def own_time(tree: ast.AST) -> Iterator[int]:
    """Lines on which a module asks the system for the time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "time" and node.attr in ASKS:
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield node.lineno


def own_waits(tree: ast.AST) -> Iterator[int]:
    """Lines on which a thread waits for so many seconds and not by a clock, or a timer is set."""
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or id(node) in awaited:
            continue
        # `wait(seconds)` of an event, `wait_for(something, seconds)` of a condition.
        given = len(node.args) + len(node.keywords)
        waits = (
            node.func.attr == "wait" and given == 1 and not any(isinstance(one, ast.Compare) for one in node.args)
        ) or (node.func.attr == "wait_for" and given > 1)
        by_clock = ast.unparse(node.func.value).endswith(("clock", "SYSTEM", "process"))
        if (waits and not by_clock) or node.func.attr == "Timer":
            yield node.lineno


def defaults(tree: ast.AST) -> set[int]:
    """The nodes that are defaults of parameters."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for default in filter(None, (*node.args.defaults, *node.args.kw_defaults)):
                found.update(id(part) for part in ast.walk(default))
    return found


def clocked() -> dict[str, int]:
    """Classes and functions that may be given a clock, and how many arguments stand before it."""
    found = {}
    for _, tree in files({}, "clock"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                made = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
                takers = [(node.name, part, 1) for part in made]
            elif isinstance(node, ast.FunctionDef) and node.name != "__init__":
                takers = [(node.name, node, 0)]
            else:
                continue
            for name, function, own in takers:
                names = [argument.arg for argument in function.args.args]
                if "clock" in names:
                    found[name] = names.index("clock") - own
                elif "clock" in [argument.arg for argument in function.args.kwonlyargs]:
                    found[name] = 1000
    return found


def forgotten(tree: ast.AST, takers: dict[str, int]) -> Iterator[tuple[int, str]]:
    """Where something that may be given a clock is given none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in takers:
            given = any(keyword.arg == "clock" for keyword in node.keywords)
            if not given and len(node.args) <= takers[node.func.id]:
                yield node.lineno, node.func.id


def zero_moments(tree: ast.AST) -> Iterator[int]:
    """Lines on which a moment that never was is 0, when the machine booted; `LONG_AGO` is before that."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = [(node.target, node.value)]
        else:
            continue
        for target, value in pairs:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                parts = list(zip(target.elts, value.elts, strict=False))
            else:
                parts = [(target, value)]
            for part, is_now in parts:
                name = part.attr if isinstance(part, ast.Attribute) else part.id if isinstance(part, ast.Name) else ""
                zero = isinstance(is_now, ast.Constant) and isinstance(is_now.value, float) and is_now.value == 0
                if zero and MOMENT.search(name):
                    yield part.lineno


def test_no_moment_that_never_was_is_zero() -> None:
    assert [(name, line) for name, tree in files({}, "0.0") for line in zero_moments(tree)] == []


def test_a_moment_that_is_zero_is_found() -> None:
    code = "self._seen_at = 0.0\nuntil: float = 0.0\na, b_since = 1.0, 0.0\nself._at = 0\nself.beat = 0.0\nx_at = y"
    assert list(zero_moments(ast.parse(code))) == [1, 2, 3]


def test_the_clock_of_these_tests_began_where_they_let_it() -> None:
    assert SYSTEM.monotonic is time.monotonic
    assert monotonic_start.begun_s() <= time.monotonic() <= monotonic_start.begun_s() + 7200


def test_no_module_reads_the_system_clock() -> None:
    assert [(name, line) for name, tree in files(BY_THEMSELVES, "time") for line in own_time(tree)] == []


def test_no_thread_waits_by_the_systems_time() -> None:
    allowed = {**BY_THEMSELVES, **WAITING}
    assert [(name, line) for name, tree in files(allowed, "wait", "Timer") for line in own_waits(tree)] == []


def test_only_what_is_outermost_takes_the_clock_of_the_system() -> None:
    """A default is for tests: nothing here leaves it at that, see below."""
    named = []
    for name, tree in files(OUTERMOST, "SYSTEM"):
        allowed = defaults(tree)
        named += [
            (name, node.lineno)
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and node.id == "SYSTEM" and id(node) not in allowed
        ]
    assert named == []


def test_every_constructor_passes_its_clock_on() -> None:
    takers = clocked()
    assert takers.keys() >= {"Leases", "LogOnce", "Contact", "Loop"}
    outermost = {**OUTERMOST, "spark/": "starts the copiers"}
    assert [(name, *found) for name, tree in files(outermost, *takers) for found in forgotten(tree, takers)] == []


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("import time\nx = time.monotonic()", [2]),
        ("import time\ny = time.sleep", [2]),
        ("from time import sleep", [1]),
        ("import time\ntime.strftime('%H')", []),
    ],
)
def test_asking_the_system_is_found(code: str, lines: list[int]) -> None:
    assert list(own_time(ast.parse(code))) == lines


def test_waiting_by_the_systems_time_is_found() -> None:
    code = "over.wait(1)\nclock.wait(over, 1)\nchanged.wait_for(done, timeout=1)\nthreading.Timer(1, end)\nover.wait()"
    assert list(own_waits(ast.parse(code))) == [1, 3, 4]
    assert list(own_waits(ast.parse("async def wait():\n    await signal.wait(1)"))) == []


def test_a_clock_that_is_not_handed_on_is_found() -> None:
    code = "Leases(1)\nLeases(1, clock=c)\nOther(1)\nLeases(1, 2, c)"
    assert list(forgotten(ast.parse(code), {"Leases": 2})) == [(1, "Leases")]

"""The parts of the harness that need no broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness.broker import new_kafka_id, to_properties
from harness.child import Child, below, named, runs, send
from harness.clients import Clients
from harness.errors import HarnessError
from harness.jvm import jars, java
from harness.jvm.jars import kafka_classpath
from harness.jvm.java import java_command
from harness.ports import claim_port, release_port
from harness.produce import numbered
from harness.wait import wait_for

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Child]:
    child = Child("program", [sys.executable, "-c", STUBBORN], tmp_path / "program.log")
    child.start()
    wait_for(lambda: "up" in child.log_tail(), 60, "the program runs")
    yield child
    child.kill()


@pytest.fixture(autouse=True)
def _fresh_java() -> Iterator[None]:
    java_command.cache_clear()
    yield
    java_command.cache_clear()


@pytest.mark.parametrize("keep", [True, False])
def test_a_cluster_of_one_node_is_asked_through_one_client(keep: bool) -> None:
    clients = Clients({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, keep=keep)
    first = clients.admin()
    assert (clients.admin() is first) == keep
    clients.drop()
    assert clients.admin() is not first


def test_wait_returns_what_became_true() -> None:
    answers = iter([None, 0, "", "there"])
    assert wait_for(lambda: next(answers), 60, "an answer", every_s=0.001) == "there"


@pytest.mark.parametrize(
    ("running", "patience_s"),
    [([0.5], 10), ([3.0], 30), ([1.0] * 5 + [4.0], 25)],
    ids=["at rest", "busy", "busy later"],
)
def test_wait_names_what_did_not_happen_and_is_patient_with_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, running: list[float], patience_s: int
) -> None:
    """`running`: processes that want to run on each core, from second to second; the last goes on."""
    now = 0.0

    def load() -> tuple[float, float, float]:
        return 2 * running[min(int(now), len(running)) - 1], 0.0, 0.0

    def sleep(_: float) -> None:
        nonlocal now
        now += 1.0

    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", load)
    monkeypatch.setattr("harness.wait.time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    with pytest.raises(TimeoutError, match=rf"the moon is blue: not so within {patience_s} s; last seen: 0"):
        wait_for(lambda: 0, 10.0, "the moon is blue")


def test_ports_are_ours_until_released() -> None:
    ports = [claim_port() for _ in range(50)]
    lowest_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(ports)) == 50
    assert max(ports) < lowest_outgoing
    claim = (
        "import harness.ports as ports\n"
        f"ports._random.randrange = lambda low, high: {ports[0]}\n"
        "try: ports.claim_port()\n"
        "except ports.HarnessError: print('taken')\n"
        "else: print('free')\n"
    )
    assert subprocess.check_output([sys.executable, "-c", claim], text=True).strip() == "taken"
    for port in ports:
        release_port(port)
    assert subprocess.check_output([sys.executable, "-c", claim], text=True).strip() == "free"


def test_a_program_that_ignores_sigterm_is_killed(program: Child) -> None:
    pid = program.pid
    assert program.terminate(deadline_s=0.2) is False
    assert not program.alive
    assert not psutil.pid_exists(pid)
    with pytest.raises(HarnessError, match="not running"):
        _ = program.pid


def test_a_suspended_program_stands_still(program: Child) -> None:
    status = psutil.Process(program.pid).status
    for _ in range(3):
        program.suspend()
        assert status() == psutil.STATUS_STOPPED
        program.resume()
        wait_for(lambda: status() != psutil.STATUS_STOPPED, 60, "it goes on")
    assert program.alive


def test_a_program_runs_once_at_a_time_and_its_log_goes_on(program: Child) -> None:
    with pytest.raises(HarnessError, match="already runs"):
        program.start()
    program.kill()
    program.start()
    wait_for(lambda: program.log_tail().count("up") == 2, 60, "it runs again")


def test_a_program_that_ended_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    child = Child("short", ["/bin/sh", "-c", "echo out of paper; exit 3"], tmp_path / "short.log")
    child.start()
    wait_for(lambda: not child.alive, 60, "it has ended")
    with pytest.raises(HarnessError, match=r"(?s)short ended with status 3\..*out of paper"):
        child.require_alive()
    assert child.wait(60) == 3


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_programs_die_with_us_however_we_die(tmp_path: Path, how: signal.Signals) -> None:
    program = (
        "from pathlib import Path\n"
        "from harness.child import Child\n"
        f"child = Child('sleeper', ['sleep', '60'], Path({str(tmp_path / 'log')!r}))\n"
        "child.start(); gone = Child('other', ['sleep', '60'], child.log); gone.start(); gone.kill()\n"
        "print(child.pid, flush=True)\n"
        # One that waits for input does not see what comes right before it waits.
        "import time\n"
        "while True: time.sleep(0.05)\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        sleeper = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(how)
        parent.wait(60)
    wait_for(lambda: not runs(sleeper), 60, "it is gone")


def test_what_ends_while_one_looks_is_left_out() -> None:
    script = "sleep 60 & sleep 60 & echo; read line; kill %1; kill -9 $(jobs -p %2); echo; exec sleep 60"
    with subprocess.Popen(["/bin/bash", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdout.readline()
        children = wait_for(lambda: found if len(found := named("sleep", below(parent.pid))) == 2 else None, 60, "two")
        assert all(map(runs, children))
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        # A program that took its place does not ask how its children ended: they stay as zombies.
        wait_for(lambda: not any(map(runs, children)), 60, "they have ended")
        wait_for(lambda: psutil.Process(parent.pid).name() == "sleep", 60, "nobody asks for them")
        assert below(parent.pid) == named("sleep", children) == []
        send(signal.SIGTERM, children)
        parent.kill()
        parent.wait(60)
        assert below(parent.pid) == named("sleep", children) == []
        send(signal.SIGTERM, children)


def test_a_program_of_ours_can_be_interrupted_though_we_cannot() -> None:
    sends = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    program = (
        "import subprocess, sys, harness.child\n"
        f"{sends}\n"
        f"print(subprocess.run([sys.executable, '-c', {sends!r}], stderr=subprocess.DEVNULL).returncode)\n"
    )
    # As a shell without job control starts `make test &`.
    command = ["/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == -signal.SIGINT


def test_a_missing_java_is_reported_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HarnessError, match=r"no java on PATH\. Please install a JDK or JRE of version 17"):
        java_command()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(HarnessError, match="which has no bin/java"):
        java_command()


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.22", 11)])
def test_an_old_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, major: int) -> None:
    fake = tmp_path / "bin" / "java"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(HarnessError, match=f"is Java {major}, too old"):
        java_command()


def test_jars_that_cannot_be_fetched_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none">'
        f'<artifact pattern="{tmp_path}/none/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TWINLOG_IVY_SETTINGS", str(settings))

    with pytest.raises(HarnessError, match="could not be fetched: the Maven repository is not reachable"):
        kafka_classpath("9.9.9")

    assert sorted(path.name for path in (tmp_path / "cache" / "kafka").iterdir()) == ["9.9.9.lock", "9.9.9.log"]


def test_the_cache_is_in_the_checkout_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWINLOG_CACHE", raising=False)
    assert jars.cache_dir() == Path(java.__file__).parents[2] / ".cache"


def test_numbered_records_are_padded_and_keyed() -> None:
    first, *_, last = numbered(3, start=9, size=4, keys=2, headers=True)
    assert (first.value, first.key, last.value, last.key) == (b"9...", b"key-1", b"11..", b"key-1")
    assert first.headers == (("number", b"9"), ("empty", b""), ("none", None))
    assert numbered(1)[0].value == b"0"


def test_properties_survive_java_escaping() -> None:
    assert to_properties({"a": "b\\c", "d": "e"}) == "a=b\\\\c\nd=e\n"


def test_ids_never_look_like_options() -> None:
    ids = {new_kafka_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert not any(one.startswith("-") for one in ids)
    assert {len(one) for one in ids} == {22}


def test_our_session_is_not_theirs(program: Child) -> None:
    assert os.getsid(program.pid) != os.getsid(0)

"""Runs the services of a compose file as processes of this machine, for where there is no container engine.

Each service has an address of its own on loopback, and a directory that stands for its disk. Commands, files and
variables are those of the compose file; only names of hosts become addresses, paths of the image become paths in that
directory, and scripts look more often and for longer than they say. Ports stay what they are.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from harness.child import Child, Started
from harness.containers.compose_file import Service, read_compose
from harness.containers.images import RENAMED, ROOT, programs
from harness.errors import HarnessError
from harness.wait import slowness, wait_for

START_S = 120.0
STOP_S = 20.0
PATIENCE = 10
"""How many seconds a script's `timeout` waits for one that it names: machines that run tests are busy."""
PAUSE_S = 0.5
"""How long a script's `sleep` lasts, whatever it names: between two looks, nobody watches what it prints."""

_HERE = ("localhost", "127.0.0.1", "0.0.0.0")
_PLACES = ("/opt/kafka", "/etc/kafka", "/var/lib/kafka")
# Which addresses others have is no choice of a test's: no seed repeats that.
_random = random.SystemRandom()


class ComposeStack(Started):
    """The services of `file` whose programs are here; use as a context manager. What they write stays in `home`.

    `edit` makes of the text of a mounted file what the service finds.
    """

    def __init__(self, file: Path, home: Path, edit: Callable[[str], str] = str) -> None:
        network = f"127.{_random.randrange(64, 250)}.{_random.randrange(250)}"
        self.services = read_compose(file)
        self.addresses = {name: f"{network}.{number}" for number, name in enumerate(self.services, 1)}
        self.running: dict[str, Child] = {}
        self._children: list[Child] = []
        self._home = home
        self._edit = edit

    def start(self) -> ComposeStack:
        """Start all services, each once those it waits for are healthy. Raises HarnessError with the log of one that
        ends, TimeoutError for one that does not become healthy.
        """
        for name, service in self.services.items():
            inside = programs(service)
            if inside is not None:
                self._lay(service, inside)
                for needed in service.needs:
                    self.wait_healthy(needed)
                self.running[name] = self.child(name, service.command, "service")
                self.running[name].start()
        for name in self.running:
            self.wait_healthy(name)
        return self

    def wait_healthy(self, name: str) -> None:
        """Wait until the compose file's own check says so."""

        def healthy() -> bool:
            self.running[name].require_alive()
            return self.run(name, self.services[name].healthy).returncode == 0

        try:
            wait_for(healthy, START_S, f"{name} is healthy", every_s=0.5)
        except TimeoutError as late:
            raise HarnessError(f"{late}\n{self.log(name)}") from late

    def log(self, name: str) -> str:
        """What a service has printed."""
        return self.running[name].log.read_text(encoding="utf-8", errors="replace")

    def child(self, name: str, command: Sequence[str], what: str) -> Child:
        """A further command in a service, as `docker compose exec` has it, until `close` at the latest.

        Its output goes to `<what>.log`.
        """
        log = self._disk(name) / f"{what}.log"
        self._children.append(Child(f"{name}: {what}", self._localized(name, command), log, self._env(name)))
        return self._children[-1]

    def run(self, name: str, command: Sequence[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
        """The same to its end."""
        return subprocess.run(
            self._localized(name, command),
            env={**os.environ, **self._env(name)},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S * slowness(),
        )

    def mounted(self, name: str, target: str) -> Path:
        """Where a path of a service's disk is on this one."""
        return self._disk(name) / target.lstrip("/")

    def close(self) -> None:
        """End what runs: SIGTERM for all, and SIGKILL for what is left of it after some time."""
        found = {name: _of_session(child.pid) for name, child in self.running.items() if child.alive}
        for name in reversed(found):
            # The shell of a service has no use for a signal, and its programs get none from it.
            for process in found[name]:
                _signal(process, kill=False)
            _, left = psutil.wait_procs(found[name], STOP_S * slowness())
            for process in left:
                _signal(process, kill=True)
        for child in self._children:
            child.kill()

    # -- what stands for a container

    def _lay(self, service: Service, inside: dict[str, list[str]]) -> None:
        renamed = "".join(f'set -- "${{@/#{old}/{new}}}"\n' for old, new in RENAMED.items())
        for path, command in inside.items():
            self._script(service.name, path, f'{renamed}exec {shlex.join(command)} "$@"')
        seconds = f'exec {shutil.which("timeout")} "$(( ${{1%s}} * {PATIENCE} ))" "${{@:2}}"'
        self._script(service.name, "/bin/timeout", seconds)
        self._script(service.name, "/bin/sleep", f"exec {shutil.which('sleep')} {PAUSE_S}")
        for mount in service.mounts:
            place = self.mounted(service.name, mount.target)
            if mount.source is None:
                place.mkdir(parents=True, exist_ok=True)
            elif mount.source.is_dir():
                for file in mount.source.iterdir():
                    self._copy(service.name, file, place / file.name)
            else:
                self._copy(service.name, mount.source, place)

    def _script(self, name: str, path: str, line: str) -> None:
        file = self.mounted(name, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/bash\n{line}\n", encoding="utf-8")
        file.chmod(0o755)

    def _copy(self, name: str, source: Path, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(self._here(name, self._edit(source.read_text(encoding="utf-8"))), encoding="utf-8")
        shutil.copymode(source, place)

    def _disk(self, name: str) -> Path:
        return self._home / name

    def _env(self, name: str) -> dict[str, str]:
        own = {key: self._here(name, value) for key, value in self.services[name].environment.items()}
        path = f"{self._disk(name) / 'bin'}{os.pathsep}{os.environ['PATH']}"
        modules = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return {"PYTHONPATH": modules, **own, "PATH": path}

    def _localized(self, name: str, command: Sequence[str]) -> list[str]:
        return [self._here(name, word) for word in command]

    def _here(self, name: str, text: str) -> str:
        """Text of a service as this machine has to read it."""
        hosts = "|".join(map(re.escape, (*self.addresses, *_HERE)))
        found = re.compile(rf"(?<![\w.-])(?:(?P<host>{hosts})(?=[:/]\d)|(?:{'|'.join(_PLACES)})(?=/))")

        def local(match: re.Match[str]) -> str:
            host = match["host"]
            if host is None:
                return str(self._disk(name)) + match.group()
            return self.addresses[name if host in _HERE else host]

        return found.sub(local, text)


def _of_session(leader: int) -> list[psutil.Process]:
    """The processes that a command has started, without itself."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != leader and os.getsid(process.pid) == leader:
                found.append(process)
        except ProcessLookupError:
            continue
    return found


def _signal(process: psutil.Process, *, kill: bool) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        (process.kill if kill else process.terminate)()

"""The quick start of the documentation, followed line by line on the services of its compose file.

`docker compose exec -T SERVICE COMMAND` runs the command as a process with the environment and the files of the
service; `up` starts the service that was killed, and `down` ends all of them.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.containers.compose import ComposeStack
from harness.containers.guide import Command, missing_line, read_guide
from harness.wait import wait_for

ROOT = Path(__file__).parents[3]
WAIT_S = 120.0
EXEC = re.compile(
    r"(?P<until>until )?(?:(?P<writer>[^|]+) \| )?docker compose exec -T (?P<service>\w+) (?P<command>[^|;]+?)"
    r"(?: \| (?P<reader>[^|]+))?(?:; do sleep 1; done)?"
)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.1 is the only address on loopback")


class Reader:
    """Types the commands of the page that are about containers, and keeps all that was printed."""

    def __init__(self, stack: ComposeStack) -> None:
        self._stack = stack
        self.printed: list[str] = []

    def type(self, command: Command) -> None:
        """Raises AssertionError with all output so far if a command fails or prints less than the page shows."""
        text = re.sub(r"\\\n\s*", "", command.text)
        code, output = self._do(text)
        self.printed.append(f"$ {text}\n{output}")
        so_far = "\n".join(self.printed)
        assert code == 0, f"line {command.line} ended with code {code}:\n{so_far}"
        missing = missing_line(command.shown, output)
        assert missing is None, f"line {command.line} does not print {missing!r}:\n{so_far}"

    def _do(self, text: str) -> tuple[int, str]:
        if text == "docker compose kill twinlog":
            _kill_session(self._stack.running["twinlog"].pid)
            return 0, ""
        if text.startswith("docker compose up"):
            twinlog = self._stack.running["twinlog"]
            if not twinlog.alive:
                twinlog.start()
            self._stack.wait_healthy("twinlog")
            return 0, ""
        if text == "docker compose down --volumes":
            self._stack.close()
            return 0, ""
        found = EXEC.fullmatch(text)
        assert found is not None, f"{text!r} is no command of the quick start"
        if found["until"]:
            wait_for(lambda: self._exec(found)[0] == 0, WAIT_S, text, every_s=1.0)
        return self._exec(found)

    def _exec(self, found: re.Match[str]) -> tuple[int, str]:
        stdin = _shell(found["writer"], "") if found["writer"] else ""
        done = self._stack.run(found["service"], shlex.split(found["command"]), stdin)
        stdout = _shell(found["reader"], done.stdout) if found["reader"] else done.stdout
        return done.returncode, stdout + done.stderr


def _shell(line: str, stdin: str) -> str:
    return subprocess.run(["bash", "-c", line], input=stdin, capture_output=True, text=True, check=True).stdout


def _kill_session(leader: int) -> None:
    """SIGKILL for all processes of a service, as at the end of its container."""
    session = psutil.Process(leader)
    for process in [session, *session.children(recursive=True)]:
        process.kill()
    psutil.wait_procs([session], WAIT_S)


@pytest.mark.scenario
def test_the_quick_start_does_what_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
    steps = [step for step in read_guide(page) if isinstance(step, Command) and "docker compose" in step.text]
    assert len(steps) > 10
    with ComposeStack(ROOT / "examples/quick-start/docker-compose.yaml", tmp_path) as stack:
        reader = Reader(stack)
        for step in steps:
            reader.type(step)


def test_each_command_of_the_page_is_known() -> None:
    page = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
    texts = [re.sub(r"\\\n\s*", "", step.text) for step in read_guide(page) if isinstance(step, Command)]
    others = {text for text in texts if EXEC.fullmatch(text) is None}
    assert others == {
        "make demo",
        "make demo ARGS=--stay",
        "cd examples/quick-start",
        "docker compose up --build --detach --wait",
        "docker compose kill twinlog",
        "docker compose up --detach --wait",
        "docker compose down --volumes",
    }


def test_the_page_shows_the_file_of_the_example() -> None:
    page = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
    file = (ROOT / "examples/quick-start/mm2.properties").read_text(encoding="utf-8")
    section = page.partition("## Files of the containers")[2]
    shown = section.partition("```properties\n")[2].partition("```")[0]
    assert shown
    assert set(filter(None, shown.splitlines())) <= set(file.splitlines())

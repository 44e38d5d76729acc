"""A compose file is read as an engine reads it, and what an engine would stumble over is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.containers.compose_file import Mount, Service, read_compose
from harness.errors import HarnessError

ReadText = Callable[[str], dict[str, Service]]


@pytest.fixture
def read(tmp_path: Path) -> ReadText:
    """Reads the text of a compose file, beside which lie `here.conf` and an env file with VERSION."""
    (tmp_path / "here.conf").touch()
    (tmp_path / ".env").write_text("# comment\nVERSION=3.9.0\n")

    def read(text: str) -> dict[str, Service]:
        file = tmp_path / "docker-compose.yaml"
        file.write_text(text)
        return read_compose(file)

    return read


def one(lines: str) -> str:
    return f"services:\n  a:\n    image: x\n    healthcheck: {{test: 'true'}}\n{lines}volumes:\n  data:\n"


def test_anchors_variables_and_commands(read: ReadText, tmp_path: Path) -> None:
    services = read("""
x-common: &common
  image: kafka:${VERSION}
  command: >
    /bin/sh -c '
      run &
      pid=$$!
      wait $$pid
    '
  healthcheck:
    test: ["CMD-SHELL", "exit $$?"]
services:
  a:
    <<: *common
    environment: {NODE: 1, NAME: "$VERSION"}
    volumes: ["./here.conf:/etc/here.conf:ro", "data:/data"]
  b:
    <<: *common
    image: other
    depends_on: {a: {condition: service_healthy}}
volumes:
  data:
""")
    a, b = services["a"], services["b"]
    assert (a.image, b.image) == ("kafka:3.9.0", "other")
    assert a.command[:2] == ("/bin/sh", "-c")
    assert a.command[2].split("\n") == ["", "  run &", "  pid=$!", "  wait $pid", ""]
    assert a.environment == {"NODE": "1", "NAME": "3.9.0"}
    assert a.mounts == (Mount("/etc/here.conf", tmp_path / "here.conf"), Mount("/data", None))
    assert a.healthy == ("/bin/sh", "-c", "exit $?")
    assert (a.needs, b.needs) == ((), ("a",))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("    command: echo ${NOBODY}\n", "NOBODY"),
        ("    command: echo $ 5\n", r"write \$\$"),
        ("    volumes: ['./gone.conf:/x']\n", "gone.conf does not exist"),
        ("    volumes: ['gone:/x']\n", "gone is not among its volumes"),
        ("    depends_on: {b: {condition: service_healthy}}\n", "b: no service to wait for"),
        ("    depends_on: {a: {condition: service_started}}\n", "another condition"),
        ("    entrypoint: x\n", "entrypoint"),
    ],
)
def test_what_an_engine_stumbles_over(read: ReadText, lines: str, told: str) -> None:
    with pytest.raises(HarnessError, match=told):
        read(one(lines))

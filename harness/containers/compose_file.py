"""Reads a compose file as an engine would: services with their commands, environments, mounts, and whom they wait for.

Of the compose specification it knows what the files in `examples` use, and refuses the rest.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from harness.errors import HarnessError

_KNOWN = {"image", "build", "command", "environment", "volumes", "ports", "depends_on", "healthcheck"}
_VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>\w+)\}|(?P<plain>[A-Za-z_]\w*)|)")


@dataclass(frozen=True, slots=True)
class Mount:
    """What a service finds at `target`: the file or directory `source`, or, without one, a volume."""

    target: str
    source: Path | None


@dataclass(frozen=True, slots=True)
class Service:
    """One service; `image` is empty where it is built from `build`. `healthy` is the command that tells whether it is.

    `needs` are the services that must be healthy before it starts.
    """

    name: str
    image: str
    build: Path | None
    command: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    ports: tuple[str, ...]
    healthy: tuple[str, ...]
    needs: tuple[str, ...]


def read_compose(file: Path) -> dict[str, Service]:
    """The services of a compose file, with the variables of the `.env` beside it.

    Raises HarnessError for what an engine refuses or would do otherwise than meant: an unknown variable, service,
    volume or condition, and a mounted file that does not exist, for which an engine makes an empty directory.
    """
    variables = read_env(file.with_name(".env"))
    content = _expanded(YAML(typ="safe", pure=True).load(file), variables)
    volumes = content.get("volumes") or {}
    services = content["services"]
    return {name: _service(file, name, one, volumes, services) for name, one in services.items()}


def read_env(file: Path) -> dict[str, str]:
    """The lines `NAME=value` of an env file."""
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def _expanded(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _expanded(one, variables) for key, one in value.items()}
    if isinstance(value, list):
        return [_expanded(one, variables) for one in value]
    if not isinstance(value, str):
        return value

    def expand(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        name = found["braced"] or found["plain"]
        if name not in variables:
            raise HarnessError(
                f"{found.group()!r} in {value!r} is no variable of the .env file; write $$ for a dollar."
            )
        return variables[name]

    return _VARIABLE.sub(expand, value)


def _service(
    file: Path, name: str, content: Mapping[str, Any], volumes: Mapping[str, Any], services: Iterable[str]
) -> Service:
    unknown = set(content) - _KNOWN
    if unknown:
        raise HarnessError(f"{file}: {name}: unknown here: {sorted(unknown)}")
    build = content.get("build")
    return Service(
        name,
        content.get("image", ""),
        None if build is None else _existing(file, build["context"]),
        _words(content.get("command", ())),
        {key: str(value) for key, value in content.get("environment", {}).items()},
        tuple(_mount(file, text, volumes) for text in content.get("volumes", ())),
        tuple(content.get("ports", ())),
        _health(content["healthcheck"]["test"]),
        tuple(_need(file, other, how, services) for other, how in content.get("depends_on", {}).items()),
    )


def _words(command: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(shlex.split(command) if isinstance(command, str) else command)


def _health(test: str | list[str]) -> tuple[str, ...]:
    if isinstance(test, str):
        return ("/bin/sh", "-c", test)
    kind, *words = test
    return ("/bin/sh", "-c", *words) if kind == "CMD-SHELL" else tuple(words)


def _mount(file: Path, text: str, volumes: Mapping[str, Any]) -> Mount:
    source, target, *_ = text.split(":")
    if source.startswith("."):
        return Mount(target, _existing(file, source))
    if source not in volumes:
        raise HarnessError(f"{file}: {source} is not among its volumes.")
    return Mount(target, None)


def _existing(file: Path, text: str) -> Path:
    path = (file.parent / text).resolve()
    if not path.exists():
        raise HarnessError(f"{file}: {text} does not exist.")
    return path


def _need(file: Path, other: str, how: Mapping[str, str], services: Iterable[str]) -> str:
    if other not in services or how != {"condition": "service_healthy"}:
        raise HarnessError(f"{file}: {other}: no service to wait for, or another condition: {how}")
    return other

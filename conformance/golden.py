"""Answers as they are kept: a file for each release and resource, which a person can read and `diff`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.call import Json
from harness.checks.differences import Facts

HOME = Path(__file__).with_name("golden")


@dataclass(frozen=True, slots=True)
class Kept:
    """One call and its answer, without what belongs to one run alone."""

    name: str
    request: str
    status: int
    headers: Mapping[str, str]
    body: Json
    late: str | None = None
    """What was waited for in vain: no golden answer has it."""


def golden_file(version: str, resource: str, home: Path = HOME) -> Path:
    return home / version / f"{resource}.json"


def write(kept: Sequence[Kept], file: Path) -> None:
    """One call after the other. Members of bodies are sorted, so that two runs of one worker write the same bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    calls = []
    for one in kept:
        call = {
            "call": one.name,
            "request": one.request,
            "status": one.status,
            "headers": dict(sorted(one.headers.items())),
        }
        if one.late is not None:
            call["late"] = one.late
        calls.append({**call, "body": json.loads(json.dumps(one.body, sort_keys=True))})
    file.write_text(json.dumps(calls, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(file: Path) -> list[Kept]:
    """Raises FileNotFoundError where nothing was recorded."""
    return [
        Kept(one["call"], one["request"], one["status"], one["headers"], one["body"], one.get("late"))
        for one in json.loads(file.read_text(encoding="utf-8"))
    ]


def facts(resource: str, kept: Sequence[Kept]) -> Facts:
    """Each status, each header and each leaf of each body as a fact: `offsets / reset twice: body.message`.

    A message of several lines is a fact for each: `body.message`, `body.message line 2`.
    """
    found: dict[str, str] = {}
    for one in kept:
        call = f"{resource} / {one.name}"
        found[f"{call}: request"] = one.request
        found[f"{call}: status"] = str(one.status)
        if one.late is not None:
            found[f"{call}: waited in vain for"] = one.late
        for name, value in one.headers.items():
            found[f"{call}: header {name}"] = value
        _leaves(f"{call}: body", one.body, found)
    return found


def _leaves(path: str, value: Json, found: dict[str, str]) -> None:
    if isinstance(value, dict) and value:
        for key, member in value.items():
            _leaves(f"{path}.{key}", member, found)
    elif isinstance(value, list) and value and any(isinstance(one, dict | list) for one in value):
        for place, member in enumerate(value):
            _leaves(f"{path}[{place}]", member, found)
    else:
        lines = value.split("\n") if isinstance(value, str) and path.endswith(".message") else [value]
        for number, line in enumerate(lines, 1):
            found[path if number == 1 else f"{path} line {number}"] = json.dumps(line, ensure_ascii=False)

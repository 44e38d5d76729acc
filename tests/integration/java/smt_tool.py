"""Connect's own transforms, asked over pipes for what they make of records."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PACKAGE = "org.apache.kafka.connect.transforms."


class SmtRecord(NamedTuple):
    """A record before or after a chain; `timestamp` in milliseconds."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Refused(NamedTuple):
    """Connect fails on a record, and says why."""

    reason: str


class SmtTool:
    """The Java process of SmtTool.java."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, config: Mapping[str, str], records: Sequence[SmtRecord]) -> str | list[SmtRecord | Refused | None]:
        """What became of each record, None for one that was dropped; or what is wrong with the configuration."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(_asked(config, records)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the Java process is gone"
        answer = json.loads(line)
        return str(answer["error"]) if "error" in answer else [_result(result) for result in answer["results"]]


def _asked(config: Mapping[str, str], records: Sequence[SmtRecord]) -> dict[str, Any]:
    stages = [_stage(config, alias) for alias in config["transforms"].split(",")]
    return {
        "stages": stages,
        "key": _converter(config, "key"),
        "value": _converter(config, "value"),
        "records": [
            {
                "topic": record.topic,
                "partition": record.partition,
                "key": _text(record.key),
                "value": _text(record.value),
                "timestamp": record.timestamp,
                "headers": [[name, _text(content)] for name, content in record.headers],
            }
            for record in records
        ],
    }


def _stage(config: Mapping[str, str], alias: str) -> dict[str, Any]:
    own = below(config, f"transforms.{alias}.")
    stage: dict[str, Any] = {"type": own.pop("type"), "negate": own.pop("negate", "false") == "true"}
    predicate = own.pop("predicate", None)
    if predicate is not None:
        settings = below(config, f"predicates.{predicate}.")
        stage["predicate"] = {"type": settings.pop("type"), "config": settings}
    return stage | {"config": own}


def _converter(config: Mapping[str, str], side: str) -> dict[str, Any] | None:
    name = config.get(f"{side}.converter")
    return None if name is None else {"type": name, "config": below(config, f"{side}.converter.")}


def below(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The settings under a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}


def _text(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def _result(result: dict[str, Any] | None) -> SmtRecord | Refused | None:
    if result is None:
        return None
    if "error" in result:
        return Refused(result["error"])
    headers = tuple((name, _bytes(content)) for name, content in result["headers"])
    return SmtRecord(
        result["topic"],
        result["partition"],
        _bytes(result["key"]),
        _bytes(result["value"]),
        result["timestamp"],
        headers,
    )

"""Bodies of requests: read within bounds, and parsed as Jackson parses them for Connect.

Scalars become their written text: `false`, `3` and `1.10` are valid values of a configuration. An error raises
RequestError with 400; its message never repeats a value.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from starlette.requests import Request

from twinlog.errors import RequestError
from twinlog.worker.connectors.model import (
    BLANKS,
    INITIAL_STATES,
    ConnectorName,
    OffsetPart,
    StoredOffset,
    TargetState,
    TopicControlRequest,
)

_BLANKS = " \t\r\n"
_LONGEST_NUMBER = 1000
_DEEPEST = 100
_LOST_HALF = re.compile("[\ud800-\udfff]")


class _Number(str):
    """A number in its written form."""

    __slots__ = ()


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """The whole body, of at most `most` bytes. Raises RequestError 413 or 408, and ClientDisconnect."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise _too_large(most)
    found = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                found += part
                if len(found) > most:
                    raise _too_large(most)
    except TimeoutError:
        raise RequestError(408, f"The request's body took longer than {seconds:.0f} s to arrive.") from None
    return bytes(found)


def _too_large(most: int) -> RequestError:
    return RequestError(413, f"The request's body is larger than {most} bytes.")


def parse(body: bytes) -> Any:
    """The JSON value that a body begins with; numbers keep their written form."""
    try:
        text = body.decode("utf-8-sig").strip(_BLANKS)
    except UnicodeDecodeError as error:
        raise RequestError(400, f"The request's body is invalid UTF-8 at byte {error.start}.") from None
    if not text:
        raise RequestError(400, "The request's body is empty, and must be JSON.")
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RequestError(400, f"The request's body is invalid JSON: {error.msg} at {where}.") from None
    except RecursionError:
        raise RequestError(400, "The request's body is nested too deep.") from None


def _no_number(name: str) -> NoReturn:
    raise RequestError(400, f"The request's body is invalid JSON: {name} is in it, and JSON has finite numbers only.")


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_no_number)


def config_map(value: Any, what: str = "The request's body") -> dict[str, str | None]:
    """A map of texts, in which null is kept."""
    if not isinstance(value, dict):
        raise RequestError(400, f"{what} must be a JSON object of keys and values.")
    if isinstance(value.get("config"), dict):
        raise RequestError(
            400,
            f"{what} has the configuration in 'config', as POST /connectors takes it; here it must be that alone.",
        )
    return {_text(key): _scalar(key, entry) for key, entry in value.items()}


def config_list(value: Any) -> list[dict[str, str]]:
    """The configurations of tasks; null values are left out."""
    if not isinstance(value, list):
        raise RequestError(400, "The request's body must be a JSON list of configurations.")
    configs = [config_map(entry, "A task's configuration") for entry in value]
    return [{key: text for key, text in config.items() if text is not None} for config in configs]


def named(name: str, config: dict[str, str | None]) -> dict[str, str | None]:
    """A configuration with its connector's name; the given configuration may have this name already."""
    if config.get("name") is not None:
        _require_name(name, config["name"])
    return {**config, "name": name}


def keeping_name(name: str, changes: dict[str, str | None]) -> dict[str, str | None]:
    """Changes of a configuration; a name among the changes must be the connector's own."""
    if "name" in changes:
        _require_name(name, changes["name"])
    return changes


def _require_name(name: str, included: str | None) -> None:
    if included != name:
        shown = "null" if included is None else included
        message = f"Connector name configuration ({shown}) doesn't match connector name in the URL ({name})"
        raise RequestError(400, message)


def create_request(value: Any) -> tuple[ConnectorName, dict[str, str | None], TargetState | None]:
    """The name, the configuration and the initial state of a new connector (Kafka class CreateConnectorRequest)."""
    if isinstance(value, dict) and "connector.class" in value and "config" not in value:
        raise RequestError(
            400,
            "The request's body is a configuration alone, as PUT /connectors/{name}/config takes it; here it belongs "
            "into 'config', beside 'name'.",
        )
    fields = _fields(value, "The request's body", ("name", "config", "initial_state"))
    name = _scalar("name", fields.get("name"))
    config = fields.get("config")
    state = _scalar("initial_state", fields.get("initial_state"))
    if config is None:
        raise RequestError(400, "The request must have 'config', a JSON object of keys and values.")
    if state is not None and state.upper() not in INITIAL_STATES:
        raise RequestError(400, "'initial_state' must be RUNNING, PAUSED or STOPPED.")
    trimmed = ConnectorName((name or "").strip(BLANKS))
    return trimmed, named(trimmed, config_map(config, "'config'")), INITIAL_STATES[state.upper()] if state else None


def offsets_request(value: Any) -> list[StoredOffset]:
    """Offsets to store, each partition once: the last entry wins (Kafka class ConnectorOffsets)."""
    listed = _fields(value, "The request's body", ("offsets",)).get("offsets")
    if listed is None or listed == []:
        raise RequestError(400, "Partitions / offsets need to be provided for an alter offsets request")
    if not isinstance(listed, list):
        raise RequestError(400, "'offsets' must be a JSON list.")
    found: dict[str, StoredOffset] = {}
    for entry in listed:
        fields = _fields(entry, "An entry of 'offsets'", ("partition", "offset"))
        partition, offset = _part("partition", fields.get("partition")), _part("offset", fields.get("offset"))
        if partition is None:
            raise RequestError(400, "Source partitions may not be null")
        found[json.dumps(partition, sort_keys=True)] = StoredOffset(partition, offset)
    return list(found.values())


def topics_request(verb: str, value: Any) -> TopicControlRequest:
    """A request for topics of a connector; the herder checks the place against the verb."""
    known = ("topics", "partitions", "to", "id", "confirm", "dry_run")
    fields = _fields(value, "The request's body", known)
    topics = fields.get("topics")
    if not isinstance(topics, list) or not topics or not all(type(one) is str for one in topics):
        raise RequestError(400, '\'topics\' must be a JSON list of patterns, for example ["orders", "logs[.].*"].')
    numbers = fields.get("partitions") or []
    if not isinstance(numbers, list) or not all(map(_is_count, numbers)):
        raise RequestError(400, "'partitions' must be a JSON list of numbers of partitions.")
    flags = {name: _flag(name, fields.get(name)) for name in ("confirm", "dry_run")}
    return TopicControlRequest(
        verb,
        tuple(_text(one) for one in topics),
        tuple(int(one) for one in numbers),
        _to(fields.get("to")),
        _scalar("id", fields.get("id")),
        **flags,
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, _Number) and value.isdecimal() and len(value) <= _LONGEST_NUMBER


def _to(value: Any) -> tuple[str, str] | None:
    """A place in a log: `earliest`, `latest`, or an object with an offset or a time."""
    if value is None or (type(value) is str and value in ("earliest", "latest")):
        return None if value is None else (value, "")
    if isinstance(value, dict) and len(value) == 1:
        ((kind, place),) = value.items()
        if kind in ("offset", "time") and isinstance(place, str) and len(place) <= _LONGEST_NUMBER:
            return kind, _text(place)
    raise RequestError(400, '\'to\' must be "earliest", "latest", {"offset": N} or {"time": MOMENT}.')


def _flag(name: str, value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    raise RequestError(400, f"'{name}' must be true or false.")


def _part(name: str, value: Any) -> OffsetPart | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise RequestError(400, f"'{name}' in 'offsets' must be a JSON object.")
    return {_text(key): _plain(entry) for key, entry in value.items()}


def _plain(value: Any, depth: int = 0) -> object:
    """The value with numbers as Python numbers."""
    if depth == _DEEPEST:
        raise RequestError(400, "The request's body is nested too deep.")
    if isinstance(value, _Number):
        return _number(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [_plain(entry, depth + 1) for entry in value]
    if isinstance(value, dict):
        return {_text(key): _plain(entry, depth + 1) for key, entry in value.items()}
    return value


def _number(text: str) -> int | float:
    whole = text.lstrip("-").isdecimal()
    if len(text) > _LONGEST_NUMBER or (not whole and not math.isfinite(float(text))):
        raise RequestError(400, "A number in 'offsets' is too large.")
    return int(text) if whole else float(text)


def _fields(value: Any, what: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(400, f"{what} must be a JSON object.")
    for name in value:
        if name not in known:
            allowed = ", ".join(f"'{one}'" for one in known)
            raise RequestError(400, f"{what} has the field '{_shown(name)}'; known are {allowed}.")
    return value


def _scalar(key: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    raise RequestError(400, f"The value of '{_shown(key)}' must be a text, a number, true or false.")


def _text(value: str) -> str:
    if _LOST_HALF.search(value):
        raise RequestError(400, "The request's body has half a character in it (a lone surrogate).")
    return str(value)


def _shown(key: str) -> str:
    return _LOST_HALF.sub("?", key[:100])

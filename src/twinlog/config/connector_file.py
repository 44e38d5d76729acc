"""The file of a connector on a worker's command line: properties, or JSON in either form of the REST API.

As in Connect's class ConnectStandalone: JSON is recognised by its content, and a file of properties has the name in it.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from twinlog.config.file_kind import FileKind, is_json, require_kind
from twinlog.config.properties import parse_properties, require_text
from twinlog.errors import ConfigError, ConfigProblem

_FORMS = "the body of a POST with name and config, or that of a PUT, with values that are text, numbers or booleans"


InitialState = Literal["RUNNING", "PAUSED", "STOPPED"]


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """A connector as it would be submitted; `initial_state` is the state in a POST, if given."""

    name: str
    config: dict[str, str]
    initial_state: InitialState | None = None


def read_connector_file(path: str | Path, name: str | None = None) -> ConnectorFile:
    """The connector that the file at `path` describes, called `name` if the file lacks a name. Raises ConfigError."""
    file = str(path)
    try:
        data = Path(path).read_bytes().removeprefix(BOM_UTF8)
    except OSError as error:
        found = str(error.strerror or error)
        raise ConfigError([ConfigProblem(file, None, "(file)", found, "a readable file of a connector")]) from None
    require_text(data, Path(path))
    require_kind(path, FileKind.CONNECTOR)
    if is_json(data):
        return _from_json(data, file, name)
    entries = parse_properties(data.decode("iso-8859-1"), file)
    return _named({entry.key: entry.value for entry in entries}, file, name)


def line_of(text: str, key: str) -> int | None:
    """The first line of a connector's file that has the key, counted from 1; None if every line lacks it."""
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip().lstrip("{, ").lstrip()
        if word.startswith((f'"{key}"', f"{key}=", f"{key} ", f"{key}:")) or f'"{key}":' in line:
            return number
    return None


def _from_json(data: bytes, file: str, name: str | None) -> ConnectorFile:
    try:
        found = json.loads(data)
    except json.JSONDecodeError as error:
        broken = f"broken JSON: {error.msg}, at character {error.colno}"
        raise ConfigError([ConfigProblem(file, error.lineno, "(file)", broken, _FORMS)]) from None
    except ValueError as error:
        raise ConfigError([ConfigProblem(file, None, "(file)", f"broken JSON: {error}", _FORMS)]) from None
    if not isinstance(found, dict):
        raise ConfigError([ConfigProblem(file, None, "(file)", "a JSON list", _FORMS)])
    nested = found.get("config")
    config = nested if isinstance(nested, dict) else found
    wrong = next((key for key, value in config.items() if not isinstance(value, str | int | float | bool)), None)
    if wrong is not None:
        raise ConfigError([ConfigProblem(file, None, wrong, "null or nested", _FORMS)])
    texts = {key: _text(value) for key, value in config.items()}
    if config is found:
        return _named(texts, file, name)
    outer = found.get("name")
    return _named(texts, file, name if outer is None else str(outer), _state(found.get("initial_state"), file))


def _state(found: object, file: str) -> InitialState | None:
    if found is None:
        return None
    state = next((state for state in get_args(InitialState) if state == str(found).upper()), None)
    if state is None:
        problem = ConfigProblem(file, None, "initial_state", repr(found), ", ".join(get_args(InitialState)))
        raise ConfigError([problem])
    return cast(InitialState, state)


def _text(value: str | float | bool) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _named(config: dict[str, str], file: str, name: str | None, state: InitialState | None = None) -> ConnectorFile:
    """`name` is how it is called beside its configuration."""
    inner, outer = config.get("name", "").strip(), (name or "").strip()
    if inner and outer and inner != outer:
        raise ConfigError([ConfigProblem(file, None, "name", repr(inner), f"{outer!r}, or no name here")])
    if not inner and not outer:
        raise ConfigError([ConfigProblem(file, None, "name", "missing", "the name of the connector")])
    return ConnectorFile(inner or outer, {**config, "name": inner or outer}, state)

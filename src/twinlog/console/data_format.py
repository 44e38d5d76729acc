"""The result of a command as a table for people, or as JSON or YAML for programs: `-o table|json|yaml`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from enum import StrEnum
from io import StringIO
from typing import Any

import typer


class DataFormat(StrEnum):
    """How a command prints its result."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def shown_data(data: Any, output: DataFormat, *, compact: bool = False) -> str:
    """Data as JSON or YAML; `compact` is a single line of JSON, or a YAML document of its own."""
    if output is DataFormat.YAML:
        return f"---\n{_yaml(data)}" if compact else _yaml(data)
    return json.dumps(data, indent=None if compact else 2, ensure_ascii=False)


def print_result(output: DataFormat, data: Callable[[], Any], lines: Callable[[], Iterable[str]]) -> None:
    """Print a result on stdout: its `data` as JSON or YAML, or its `lines` for people."""
    typer.echo("\n".join(lines()) if output is DataFormat.TABLE else shown_data(data(), output))


def _yaml(data: Any) -> str:
    from ruamel.yaml import YAML  # noqa: PLC0415 - it is slow to import for --help

    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.allow_unicode = True
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    text = StringIO()
    # YAML knows plain types only, as JSON does.
    writer.dump(json.loads(json.dumps(data)), text)
    return text.getvalue().removesuffix("...\n").rstrip("\n")

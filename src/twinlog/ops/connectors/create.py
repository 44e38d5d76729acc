"""`twinlog connectors create`: creates or replaces connectors from files, and prints the changed keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from twinlog.config.connector import ConnectorFile, line_of, read_connector_file
from twinlog.config.keys.scope import connector_key
from twinlog.console.command_log import print_error, print_note
from twinlog.console.data_format import DataFormat, print_result
from twinlog.console.exit_codes import FOUND, UNREACHABLE, WRONG, code_of, failure_text
from twinlog.console.mistake_output import print_mistakes
from twinlog.console.options import DryRun, Output
from twinlog.errors import ConfigError, RequestError, TwinlogError
from twinlog.errors.message_ids import id_first, split_id
from twinlog.errors.mistakes import MISSING, ConfigProblem, MistakeKind
from twinlog.ops.connectors.options import asks_worker
from twinlog.ops.connectors.rest import ConnectRest

HIDDEN = "(hidden)"

_REFERENCE = re.compile(r"\$\{[^}]+\}")
# Connectors on a worker of Kafka's may have keys that are unknown to twinlog.
_SECRET_NAME = re.compile(r"passw|passphrase|pwd|secret|token|credential|jaas|private|api\.?key|(^|[._-])key$", re.I)
_SECRET_VALUE = re.compile(r"(passw\w*|pwd|secret|token)\s*=|://[^/@\s]+:[^/@\s]+@", re.I)


@dataclass(frozen=True, slots=True)
class Change:
    """A key with its values, fit for display; `before` is None if the key is new, `after` is None if it is removed."""

    key: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"+ {self.key} = {self.after}"
        if self.after is None:
            return f"- {self.key} = {self.before}"
        return f"~ {self.key} = {self.before} -> {self.after}"


def changes(before: Mapping[str, str | None], after: Mapping[str, str]) -> Sequence[Change]:
    """The keys that differ, in their order."""
    keys = sorted(key for key in {**before, **after} if before.get(key) != after.get(key))
    return [Change(key, shown(key, before.get(key)), shown(key, after.get(key))) for key in keys]


def shown(key: str, value: str | None) -> str | None:
    """The value in a form fit for display: a reference to a secret is shown as it is."""
    if value is None or _REFERENCE.fullmatch(value.strip()):
        return value
    known, _ = connector_key(key)
    # A known key has a type; an unknown key is judged by its name and value alone.
    secret = bool(_SECRET_NAME.search(key)) if known is None else known.secret
    return HIDDEN if secret or _SECRET_VALUE.search(value) else value


@asks_worker
def create(
    rest: ConnectRest,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="JSON, the body of a POST or that of a PUT with name in it; or properties.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the connector, if its file lacks a name.", show_default=False)
    ] = None,
    dry_run: DryRun = False,
    output: Output = DataFormat.TABLE,
) -> None:
    """Create connectors, or replace the configurations of those that exist, and print the changes.

    The worker validates every FILE before anything is changed; each error is a line. A connector that has its
    configuration already is left alone.

    Example: twinlog connectors create source.json checkpoint.json heartbeat.properties

    Example: twinlog connectors create source.json --name 'east->west.Source' --dry-run
    """
    if name is not None and len(files) != 1:
        raise typer.BadParameter("names a single connector, and there are several files", param_hint="--name")
    wanted = _read(files, name)
    problems = [problem for file, one in wanted for problem in _problems(rest, file, one)]
    if problems:
        print_mistakes(problems)
        print_note("nothing was changed")
        raise typer.Exit(WRONG)
    done, codes = [], set()
    for _, one in wanted:
        try:
            done.append(_put(rest, one, dry_run))
        except TwinlogError as error:
            codes.add(code_of(error))
            print_error(id_first(f"{one.name}: {failure_text(error)}"))
    if done or not codes:
        print_result(output, lambda: done, lambda: (line for one in done for line in _lines(one, dry_run)))
    if codes:
        raise typer.Exit(UNREACHABLE if UNREACHABLE in codes else FOUND)


def _read(files: Sequence[Path], name: str | None) -> list[tuple[Path, ConnectorFile]]:
    """Raises ConfigError with every problem of every file."""
    found: dict[str, tuple[Path, ConnectorFile]] = {}
    problems: list[ConfigProblem] = []
    for file in files:
        try:
            one = read_connector_file(file, name)
        except ConfigError as error:
            problems += error.problems
            continue
        if one.name in found:
            expected = f"a single file of a connector; {found[one.name][0]} has this name too"
            problems.append(ConfigProblem(str(file), None, "name", repr(one.name), expected))
        found[one.name] = file, one
    if problems:
        raise ConfigError(problems)
    return list(found.values())


def _problems(rest: ConnectRest, file: Path, one: ConnectorFile) -> list[ConfigProblem]:
    """The worker's complaints about a configuration."""
    kind = one.config.get("connector.class", "").strip()
    if not kind:
        return [ConfigProblem(str(file), None, "connector.class", MISSING, "the class of the connector")]
    text = file.read_text("utf-8", "replace")
    problems = []
    for wrong in wrong_keys(rest, kind, one.config):
        line = line_of(text, wrong.key) if wrong.key else None
        for error in wrong.errors:
            # Errors of Kafka's worker lack an id.
            words, message_id = split_id(error)
            problems.append(ConfigProblem(str(file), line, wrong.key, words, kind=MistakeKind.of(message_id)))
    return problems


@dataclass(frozen=True, slots=True)
class WrongKey:
    """A key that a worker refuses, with the reasons and the recommended values; "" is the whole configuration."""

    key: str
    errors: tuple[str, ...]
    recommended: tuple[str, ...] = ()


def wrong_keys(rest: ConnectRest, class_name: str, config: Mapping[str, str]) -> list[WrongKey]:
    """The keys of a configuration that the worker refuses for a connector class. Raises RequestError, ClusterError."""
    try:
        found = rest.send_request("PUT", "connector-plugins", class_name, "config", "validate", body=dict(config))[1]
    except RequestError as error:
        if error.status != 400:
            raise
        return [WrongKey("", tuple(str(error).splitlines()))]
    values = [entry["value"] for entry in found["configs"] if entry["value"]]
    return [
        WrongKey(
            value["name"], tuple(map(str, value["errors"])), tuple(map(str, value.get("recommended_values") or ()))
        )
        for value in values
        if value["errors"]
    ]


def _put(rest: ConnectRest, one: ConnectorFile, dry_run: bool) -> dict[str, Any]:
    """Create or replace; returns the action as JSON."""
    before = _config(rest, one.name)
    if before is None:
        if not dry_run:
            body = {"name": one.name, "config": one.config}
            if one.initial_state:
                body["initial_state"] = one.initial_state
            rest.send_request("POST", "connectors", body=body)
        return {"name": one.name, "result": "created", "changes": []}
    differences = [asdict(change) for change in changes(before, one.config)]
    if differences and not dry_run:
        rest.send_request("PUT", "connectors", one.name, "config", body=one.config)
    if one.initial_state:
        print_note(f"{one.name}: initial_state counts when a connector is created; its state stays as it is")
    return {"name": one.name, "result": "replaced" if differences else "unchanged", "changes": differences}


def _config(rest: ConnectRest, name: str) -> Mapping[str, str | None] | None:
    """The configuration of a connector; None if the connector is missing."""
    try:
        found: Mapping[str, str | None] = rest.get("connectors", name, "config")
    except RequestError as error:
        if error.status != 404:
            raise
        return None
    return found


def _lines(done: Mapping[str, Any], dry_run: bool) -> list[str]:
    result = done["result"]
    if result == "unchanged":
        return [f"{done['name']}: unchanged, it has this configuration already"]
    return [
        f"{done['name']}: {'would be ' if dry_run else ''}{result}",
        *(f"  {Change(**one)}" for one in done["changes"]),
    ]

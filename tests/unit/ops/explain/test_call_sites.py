"""Every warning and error of the code has an id of the table, and every id of the table is used."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import EVENT_IDS, ID
from twinlog.ops.explain.pages.alerts import ALERTS
from twinlog.ops.explain.table import MESSAGES, page_of

ROOT = Path(__file__).resolve().parents[4]
PACKAGE = ROOT / "src" / "twinlog"
LEVELS = {"warning", "error", "exception", "critical", "log"}
ID_FIRST = re.compile(r"TW-[A-Z]+-\d\d: ")
ID_LAST = re.compile(r"\[TW-[A-Z]+-\d\d\]$")
GIVES_AN_ID = {"id_of", "id_first", "with_id", "with_event_id", "told", "failure_text"}
"""Functions that return an id, or a text with an id in front."""

VARIABLES = {
    "message_id": "chosen among literals in the lines before",
    "found": "of with_id in the line before",
}


@dataclass(frozen=True)
class CallSite:
    """A call of a logger that writes warnings or errors."""

    place: str
    call: ast.Call

    def __str__(self) -> str:
        return self.place


@cache
def modules() -> dict[Path, ast.Module]:
    """The modules of the package except the table itself."""
    files = [
        file for file in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "ops" / "explain" / "pages" not in file.parents
    ]
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}


def call_sites() -> Iterator[CallSite]:
    for file, module in modules().items():
        for node in ast.walk(module):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
                continue
            if isinstance(node.func.value, ast.Name) and node.func.value.id in {"log", "_log", "_LOG", "LOG", "logger"}:
                yield CallSite(f"{file.relative_to(ROOT)}:{node.lineno}", node)


def format_of(call: ast.Call) -> tuple[ast.expr, list[ast.expr]]:
    """The format and the values of a call; `log.log` has its level before both."""
    first = 1 if isinstance(call.func, ast.Attribute) and call.func.attr == "log" else 0
    return call.args[first], call.args[first + 1 :]


def has_an_id(call: ast.Call) -> bool:
    form, values = format_of(call)
    if not isinstance(form, ast.Constant) or not isinstance(form.value, str):
        return False
    if ID_FIRST.match(form.value):
        return True
    if not form.value.startswith("%s") or not values:
        return False
    return gives_an_id(values[0])


def gives_an_id(value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in GIVES_AN_ID
    if isinstance(value, ast.Starred) and isinstance(value.value, ast.Tuple):
        return gives_an_id(value.value.elts[0])
    if isinstance(value, ast.Attribute):
        return value.attr == "message_id"
    return isinstance(value, ast.Name) and value.id in VARIABLES


@pytest.mark.parametrize("site", list(call_sites()), ids=str)
def test_a_warning_or_an_error_begins_with_an_id(site: CallSite) -> None:
    assert has_an_id(site.call), f"{site}: put the id of the message in front: TW-AREA-NN, see twinlog explain"


PRINTS = {"print_error", "print_warning_line"}
"""Functions that print a warning or an error of a command."""


def printed_lines() -> Iterator[CallSite]:
    for file, module in modules().items():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PRINTS:
                yield CallSite(f"{file.relative_to(ROOT)}:{node.lineno}", node)


def prints_an_id(value: ast.expr) -> bool:
    """Whether a text has an id: a literal in front or in brackets, a call that puts an id in front."""
    if isinstance(value, ast.JoinedStr):
        first, last = value.values[0], value.values[-1]
        return prints_an_id(first) or (isinstance(last, ast.Constant) and ID_LAST.search(str(last.value)) is not None)
    if isinstance(value, ast.Constant):
        return isinstance(value.value, str) and ID_FIRST.match(value.value) is not None
    return gives_an_id(value)


@pytest.mark.parametrize("site", list(printed_lines()), ids=str)
def test_a_printed_warning_or_error_has_an_id(site: CallSite) -> None:
    assert prints_an_id(site.call.args[0]), f"{site}: put the id of the message in front: TW-AREA-NN"


def test_there_are_printed_lines() -> None:
    assert len(list(printed_lines())) > 30


def test_there_are_call_sites() -> None:
    assert len(list(call_sites())) > 150


def docstrings(module: ast.Module) -> set[int]:
    return {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}


@cache
def used_ids() -> dict[str, str]:
    """The ids in strings of the code, each with a place; docstrings and comments are left out."""
    found: dict[str, str] = {}
    for file, module in modules().items():
        left_out = docstrings(module)
        for node in ast.walk(module):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
                for name in ID.findall(node.value):
                    found.setdefault(name, f"{file.relative_to(ROOT)}:{node.lineno}")
    alerts = ROOT / "deploy" / "monitoring" / "alerts.yaml"
    for name in ID.findall(alerts.read_text(encoding="utf-8")):
        found.setdefault(name, str(alerts.relative_to(ROOT)))
    return found


def test_each_id_of_the_code_is_in_the_table() -> None:
    assert {name: place for name, place in used_ids().items() if name not in MESSAGES} == {}


def test_each_id_of_the_table_is_used_or_retired() -> None:
    unused = [message.id for message in MESSAGES.values() if message.in_line and message.id not in used_ids()]
    assert [name for name in unused if not MESSAGES[name].retired] == []


def test_a_retired_id_and_an_id_outside_of_lines_are_unused() -> None:
    wrong = [message.id for message in MESSAGES.values() if message.retired or not message.in_line]
    assert {name: used_ids()[name] for name in wrong if name in used_ids()} == {}


def test_each_kind_of_event_has_an_id() -> None:
    assert set(EVENT_IDS.values()) <= MESSAGES.keys()
    kinds = set()
    for module in modules().values():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in {"report_event", "_event", "event"}:
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    kinds.add(first.value)
    assert len(kinds) > 10
    assert kinds <= EVENT_IDS.keys()


def all_errors(kind: type[TwinlogError]) -> Iterator[type[TwinlogError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from all_errors(below)


def test_each_error_class_has_an_id_of_the_table() -> None:
    ids = {kind.kind_id for kind in all_errors(TwinlogError)} - {""}
    assert len(ids) > 10
    assert ids <= MESSAGES.keys()


def test_each_alert_has_an_id_and_its_page() -> None:
    rules = YAML(typ="safe").load((ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text(encoding="utf-8"))
    alerts = [rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule]
    assert len(alerts) > 15
    assert {alert["alert"]: alert["annotations"]["message_id"] for alert in alerts} == ALERTS
    for alert in alerts:
        message = MESSAGES[alert["annotations"]["message_id"]]
        page = f"docs/messages/{page_of(message).name}.md"
        assert (ROOT / page).is_file()
        assert alert["annotations"]["runbook_url"] == f"{page}#{message.id.lower()}", alert["alert"]
    named = {line.removeprefix("alert ") for message in MESSAGES.values() for line in message.shapes}
    own = {alert["alert"] for alert in alerts if MESSAGES[alert["annotations"]["message_id"]].area == "ALERT"}
    assert own == {name for name in named if name.startswith("Twinlog")}


def test_the_command_of_the_alerts_makes_links_of_their_paths() -> None:
    alerts = ROOT / "deploy" / "monitoring" / "alerts.yaml"
    command = next(line for line in alerts.read_text(encoding="utf-8").splitlines() if "sed -E" in line)
    done = subprocess.run(
        [*shlex.split(command.removeprefix("#"))[:-1], str(alerts)], capture_output=True, text=True, check=True
    )
    links = [line.strip() for line in done.stdout.splitlines() if " runbook_url: " in f" {line.strip()}"]
    assert len(links) > 15
    for link in links:
        assert re.fullmatch(
            r"runbook_url: https://docs\.example\.com/twinlog/messages/[a-z-]+\.html#tw-[a-z]+-\d\d", link
        ), link

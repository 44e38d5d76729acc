"""Every command has an example, its exit codes, its page, and options from one vocabulary; the words of before work."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from scripts.check_docs import commands as shell_commands
from scripts.check_docs import wrong_command
from twinlog.cli.main import SECTIONS, app
from twinlog.cli.reference import render
from twinlog.console.command_class import OLD_NAMES, OldName, TwinlogCommand
from twinlog.console.exit_codes import MEANINGS
from twinlog.console.help_page import HelpPage

ROOT = Path(__file__).resolve().parents[3]
CLI: Any = typer.main.get_command(app)

SHARED = {
    "--flow": {"A:B"},
    "--topic": {"TOPIC"},
    "--group": {"GROUP"},
    "--partition": {"NUMBER"},
    "--from": {"A"},
    "--to": {"B"},
    "--since": {"TIME"},
    "--until": {"TIME"},
    "--from-offset": {"OFFSET"},
    "--to-offset": {"OFFSET"},
    "--offset": {"NUMBER"},
    "--dry-run": {""},
    "--yes": {""},
    "--output": {
        *("table|json|yaml", "text|json|github", "kafka-acls|strimzi|terraform|json"),
        "properties|connectors|strimzi",
    },
    "--output-dir": {"DIR"},
    "--timeout": {"SECONDS"},
    "--secrets": {"DIR"},
    "--url": {"URL"},
    "--client-config": {"PATH"},
    "--master": {"URL"},
    "--conf": {"KEY=VALUE"},
    "--all": {""},
    "--wait": {""},
    "--verbose": {""},
    "--quiet": {""},
    "--log-format": {"text|json"},
}
"""The options that several commands share, each with the one form of its value."""

OWN = {
    "acls": {"--for", "--missing", "--principal", "--withdraw"},
    "audit": {"--full", "--html", "--sample", "--was"},
    "canary": {
        *(
            "--alias",
            "--copied-further",
            "--full",
            "--mm2-pid",
            "--observe",
            "--pid",
            "--prefix",
            "--sample",
            "--start",
        ),
    },
    "check": {"--clusters", "--explain", "--strict", "--was"},
    "connectors": {
        *("--cacert", "--cert", "--failed-only", "--file", "--key", "--listens-later", "--name", "--task", "--tasks"),
        "--trace",
    },
    "console": {
        *("--cacert", "--listen", "--users", "--oauth", "--tls-cert", "--tls-key", "--read-only", "--no-records"),
    },
    "convert": {"--api-version"},
    "diff": {"--same-names"},
    "groups": {"--repeats"},
    "keygen": {"--out"},
    "log-level": {"--connector", "--for"},
    "plan": {"--rate"},
    "replay": {"--into"},
    "run": {"--clusters", "--listen", "--metrics-listener", "--offsets", "--prove", "--until-caught-up", "--users"},
    "status": {"--max-lag", "--watch"},
    "switchback": {
        *("--abort", "--fence", "--near", "--release", "--report", "--sign", "--status", "--take-over", "--wave"),
    },
    "switchover": {
        *("--abort", "--emergency", "--fence", "--near", "--release", "--report", "--sign", "--status", "--take-over"),
        "--wave",
    },
    "topics": {"--connector", "--earliest", "--id", "--latest", "--partitions"},
    "translate": {"--back"},
    "verify": {
        *("--against", "--every-record", "--ignore-foreign", "--key", "--sign", "--statement", "--target-only"),
    },
}
"""The options of a single command, by the first word of its name."""

REPEATED = {"--topic", "--group", "--partition", "--conf"}


def commands(
    command: Any, words: tuple[str, ...] = (), parent: Any = None
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Each command with its words and the context of its call."""
    with command.make_context(words[-1] if words else "twinlog", [], parent=parent, resilient_parsing=True) as context:
        yield words, command, context
        for name, below in getattr(command, "commands", {}).items():
            yield from commands(below, (*words, name), context)


TREE = list(commands(CLI))
NAMED = [pytest.param(words, command, context, id=" ".join(words) or "twinlog") for words, command, context in TREE]
LEAVES = [entry for entry in TREE if not hasattr(entry[1], "commands")]


@pytest.mark.parametrize(("words", "command", "context"), NAMED)
def test_the_help_is_whole(words: tuple[str, ...], command: Any, context: Any) -> None:
    page = HelpPage.of(command, context)
    assert page.doc.summary.endswith(".")
    assert page.doc.examples, "no example"
    for example in page.doc.examples:
        assert " ".join(("twinlog", *words)) in example or words == ("canary", "write"), example
        for called in shell_commands("bash", re.sub(r"<\(|[()$]", " ", example)):
            found = wrong_command(called, CLI, set())
            assert found is None, (example, found)
    codes = [code for code, _ in page.exits]
    assert codes == sorted(codes)
    assert {0, 2} <= set(codes) <= set(MEANINGS), codes
    assert not re.search(r"[Ee]nds with (the )?codes? ", command.help), "exit codes outside of `Exit codes:`"
    assert (ROOT / page.page.partition("#")[0]).is_file(), page.page


@pytest.mark.parametrize(("words", "command", "context"), NAMED)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_help_breaks_no_word_and_has_no_noise(
    words: tuple[str, ...], command: Any, context: Any, columns: int
) -> None:
    text = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": str(columns)}).output
    page = HelpPage.of(command, context)
    for label, description in (*page.arguments, *page.options, *((str(code), why) for code, why in page.exits)):
        assert label in text
        whole = text.split()
        for word in description.split():
            assert word in whole, f"{word} is broken in two"
    assert not re.search(r"<(int|str|list|bool|float|path)|\[\[|\.\.\.\.|│", text), text
    for line in text.splitlines():
        assert len(line) <= min(columns, 100) or "twinlog " in line, line


@pytest.mark.parametrize(("words", "command", "context"), [pytest.param(*one, id=" ".join(one[0])) for one in LEAVES])
def test_options_are_of_the_vocabulary(words: tuple[str, ...], command: Any, context: Any) -> None:
    own = OWN.get(words[0], set())
    for param in command.params:
        if param.param_type_name != "option" or param.hidden:
            continue
        name = next(opt for opt in param.opts if opt.startswith("--"))
        assert name in SHARED or name in own, f"{name} is no word of the vocabulary"
        form = "" if param.is_flag else param.metavar or param.display_type(context).strip("<>")
        assert form in SHARED.get(name, {form}), f"{name} {form}"
        if name in REPEATED and (words[0], name) != ("translate", "--partition"):
            assert param.multiple, f"{name} cannot be repeated"
        assert form != "" or param.is_flag
    names = {opt for param in command.params for opt in param.opts}
    assert {"-v", "-q", "--log-format"} <= names


OFFLINE = {
    *(("run",), ("connect",), ("check",), ("explain",), ("convert",), ("canary", "write"), ("keygen",)),
    *(("warm-up",), ("launcher",), ("completion",), ("console",)),
}
"""The commands that ask no cluster, or serve until a signal ends them."""

WITHOUT_DATA = {
    ("connectors", *words)
    for words in (
        ("pause",),
        ("resume",),
        ("stop",),
        ("restart",),
        ("delete",),
        ("offsets", "alter"),
        ("offsets", "reset"),
    )
}
"""The commands that ask a cluster, and print no data."""


@pytest.mark.parametrize(("words", "command", "context"), [pytest.param(*one, id=" ".join(one[0])) for one in LEAVES])
def test_commands_that_ask_a_cluster_have_a_timeout_and_data(
    words: tuple[str, ...], command: Any, context: Any
) -> None:
    names = {opt for param in command.params if not getattr(param, "hidden", False) for opt in param.opts}
    assert ("--timeout" in names) == (words not in OFFLINE)
    if words not in OFFLINE:
        assert ("-o" in names) == (words not in WITHOUT_DATA)


CHANGES = {
    *(("reload",), ("log-level",), ("switchover",), ("switchback",), ("replay",)),
    *(("topics", word) for word in ("pause", "resume", "restart-from", "skip-to", "accept-gap", "release")),
    *(("connectors", word) for word in ("pause", "resume", "stop", "restart", "delete", "create")),
    *(("connectors", "offsets", word) for word in ("alter", "reset")),
}
"""The commands that change a cluster, a worker or a running process. The dry run of `twinlog run` is `twinlog plan`."""

PLACES = {
    *("FILE", "OTHER", "CONNECTOR", "WORKER", "CANARY_FILE", "INPUT"),
    *("NAME", "TOPIC", "TOPIC:PARTITION=OFFSET", "LEVEL", "ID", "SHELL"),
}
"""The arguments: files, and the objects of a command. Clusters have options."""


@pytest.mark.parametrize(("words", "command", "context"), [pytest.param(*one, id=" ".join(one[0])) for one in LEAVES])
def test_changes_have_a_dry_run_and_clusters_have_options(words: tuple[str, ...], command: Any, context: Any) -> None:
    options = {opt for param in command.params for opt in param.opts}
    assert ("--dry-run" in options) == (words in CHANGES)
    arguments = {label for label, _ in HelpPage.of(command, context).arguments}
    assert arguments <= PLACES
    assert "TOPIC" not in arguments or "--topic" in options


def test_no_option_of_a_single_command_is_left_over() -> None:
    used: dict[str, set[str]] = defaultdict(set)
    for words, command, _ in LEAVES:
        used[words[0]] |= {opt for param in command.params for opt in param.opts}
    unused = {first: sorted(own - used[first]) for first, own in OWN.items()}
    assert {first: own for first, own in unused.items() if own} == {}


def test_the_reference_is_the_help() -> None:
    assert (ROOT / "docs" / "commands.md").read_text("utf-8") == render(), "run: make reference"


def test_commands_are_in_sections() -> None:
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    assert [line[:-1] for line in text.splitlines() if line[:-1] in SECTIONS] == list(SECTIONS)
    for command in CLI.commands.values():
        assert command.section in SECTIONS
    set_up = text.partition("Set up:")[2]
    assert {"warm-up", "launcher", "completion"} <= set(set_up.split())


ALIASES = [
    (words, old, param)
    for words, command, _ in LEAVES
    if isinstance(command, TwinlogCommand)
    for old, param in command.old_names.items()
]


@pytest.mark.parametrize(
    ("words", "old", "param"), [pytest.param(*one, id=f"{' '.join(one[0])} {one[1].name}") for one in ALIASES]
)
def test_the_name_of_before_is_hidden_and_works(words: tuple[str, ...], old: OldName, param: Any) -> None:
    (command,) = (command for found, command, _ in TREE if found == words)
    text = CliRunner().invoke(app, [*words, "--help"]).output
    assert not re.search(rf"^ +{old.name}(?![\w-])", text, re.MULTILINE)

    def read(name: str, value: str | None) -> Any:
        given = [name] if value is None else [name, value]
        context = command.make_context(words[-1], given, resilient_parsing=True)
        return context.params[old.now]

    name = next(opt for opt in param.opts if opt.startswith("--"))
    form = param.display_type(command.make_context(words[-1], [], resilient_parsing=True)).strip("<>")
    value = {"float": "7.5", "int": "7"}.get(form.partition(" ")[0], form.split("|")[-1])
    if old.value is None:
        assert read(old.name, value) == read(name, value) not in (None, [])
    else:
        assert read(old.name, None) == read(name, None if param.is_flag else str(old.value))


def test_each_name_of_before_belongs_to_a_command() -> None:
    assert {old for _, old, _ in ALIASES} == set(OLD_NAMES)


HIDDEN = {"run": {"--until"}, "replay": {"--from", "--to"}, "connectors": {"--retry"}, "diff": {"last"}}


def test_other_hidden_options_are_known() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for words, command, _ in LEAVES:
        found[words[0]] |= {opt for param in command.params if getattr(param, "hidden", False) for opt in param.opts}
    assert {first: options for first, options in found.items() if options} == HIDDEN

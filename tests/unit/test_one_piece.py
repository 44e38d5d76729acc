"""A task of the client has a single piece of code: modules beside this piece use it, and repeat nothing of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "twinlog"

FETCHES = {
    "kafka/consumer/": "has the readers",
    "kafka/admin/topic_ids.py": "asks a leader for an id, and reads no records",
    "copier/start/log_reader.py": "reads to the end of a log, with another error for each cause",
}
"""Where fetch requests are made, with the reason."""


def modules(excluded: dict[str, str], word: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules of the package that are not excluded and have a word."""
    for path in sorted(SOURCE.rglob("*.py")):
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")
        if not name.startswith(tuple(excluded)) and word in text:
            yield name, ast.parse(text)


def calls_of(tree: ast.AST, name: str) -> list[int]:
    """The lines on which a module calls a function or a class of this name."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and name in {getattr(node.func, "id", None), getattr(node.func, "attr", None)}
    ]


def test_fetch_requests_are_made_by_the_readers_of_the_client() -> None:
    """`leader_fetch.RangeFetch` reads a range of a partition, `fetch_once` asks many leaders once."""
    found = [(name, line) for name, tree in modules(FETCHES, "FetchSession") for line in calls_of(tree, "FetchSession")]
    assert found == []


def test_each_module_with_fetch_requests_is_known() -> None:
    """A list with a module that makes no fetch requests any more would hide the next one."""
    names = [name for name, tree in modules({}, "FetchSession") if calls_of(tree, "FetchSession")]
    assert [place for place in FETCHES if not any(name.startswith(place) for name in names)] == []


def test_a_second_fetch_loop_is_found() -> None:
    code = "while x:\n    y = fetch_session.FetchSession(client, 1)\n    FetchSession(client, 2)\nFetchSession.x()"
    assert calls_of(ast.parse(code), "FetchSession") == [2, 3]

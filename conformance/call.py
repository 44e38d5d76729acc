"""One call of the API as data: what is asked, what is waited for, and what of the answer counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Json = Any
"""Null, truth value, number, text, list or object, as `json` reads it."""


class _NoBody:
    def __repr__(self) -> str:
        return "NO_BODY"


NO_BODY: Final = _NoBody()
"""JSON's null is a body, too."""


@dataclass(frozen=True, slots=True)
class Response:
    """Status, the headers that count, and the body: JSON where it is declared so, otherwise text, None when empty."""

    status: int
    headers: Mapping[str, str]
    body: Json
    late: str | None = None
    """What was waited for in vain."""


@dataclass(frozen=True, slots=True)
class Until:
    """Repeat a call until this holds."""

    what: str
    holds: Callable[[Response], bool]


@dataclass(frozen=True, slots=True)
class Call:
    """`request` is method and path, `body` JSON or the bytes themselves.

    `<source>`, `<target>`, `<dir>` and `<worker-1>` stand for what only a run knows, in the request as in the answer.
    `shape` leaves of a body what counts, such as a list in the order of names where a worker has none.
    An answer 409 because of a rebalance is no answer unless `conflicts` says so: the call is repeated.
    """

    name: str
    request: str
    body: Json = NO_BODY
    headers: Mapping[str, str] = field(default_factory=dict)
    until: Until | None = None
    shape: Callable[[Json], Json] | None = None
    to: str = "worker-1"
    conflicts: bool = False


# -- what is waited for


def answered(status: int) -> Until:
    return Until(f"status {status}", lambda answer: answer.status == status)


def connector_is(state: str, tasks: int | None = None, task_state: str | None = None) -> Until:
    """The answer of `/status`: the connector's state, how many tasks, and the state of each."""

    def holds(answer: Response) -> bool:
        if answer.status != 200:
            return False
        found = answer.body["tasks"]
        return (
            answer.body["connector"]["state"] == state
            and (tasks is None or len(found) == tasks)
            and all(task["state"] == (task_state or state) for task in found)
        )

    return Until(f"{state} with {tasks} tasks {task_state or state}", holds)


def has_tasks(count: int) -> Until:
    """The answer of a connector itself."""
    return Until(f"{count} tasks", lambda answer: answer.status == 200 and len(answer.body["tasks"]) == count)


def lists(*names: str) -> Until:
    """The answer of `/connectors`, with or without expansion."""
    return Until(f"lists {names}", lambda answer: answer.status == 200 and set(answer.body) == set(names))


def holds_offsets(*offsets: int) -> Until:
    """The answer of `/offsets`, of one partition each."""

    def holds(answer: Response) -> bool:
        return answer.status == 200 and [one["offset"]["offset"] for one in answer.body["offsets"]] == list(offsets)

    return Until(f"offsets {offsets}", holds)


def writes(name: str, *topics: str) -> Until:
    """The answer of `/topics` of a connector."""

    def holds(answer: Response) -> bool:
        return answer.status == 200 and set(answer.body[name]["topics"]) == set(topics)

    return Until(f"{name} writes to {topics}", holds)

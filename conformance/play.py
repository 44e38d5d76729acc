"""Plays calls one after the other and keeps their answers as they compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from http.client import HTTPException

from conformance.call import Call, Response
from conformance.golden import Kept
from conformance.shapes import as_written, settled
from conformance.stage import Act, Resource, Stage
from harness.wait import slowness

UNTIL_S = 30.0
"""How long a state is waited for, at rest."""

CONFLICT_S = 20.0
"""How long a rebalance may refuse what is asked."""


def play(
    resource: Resource, stage: Stage, version: str, in_vain: Callable[[str], bool] = lambda call: False
) -> Iterator[Kept]:
    """The answers of a resource's calls. A worker that breaks a connection is an answer of status 0.

    Where `in_vain(call)` the state that a call waits for is not expected of this worker: it is asked once.
    """
    for step in resource.steps:
        if isinstance(step, Act):
            step.run(stage)
            continue
        call = replace(step, until=None) if in_vain(step.name) else step
        yield keep(call, ask(call, stage), stage, version)


def ask(call: Call, stage: Stage) -> Response:
    """The answer of one call, once what it waits for holds and no rebalance is in its way."""
    begin = time.monotonic()
    pause = 0.05
    while True:
        answer = _once(call, stage)
        waited = (time.monotonic() - begin) / slowness()
        refused = not call.conflicts and is_rebalance(answer)
        holds = call.until is None or call.until.holds(answer)
        if holds and not refused:
            return answer
        if waited > (CONFLICT_S if refused else UNTIL_S):
            return replace(answer, late="no rebalance" if refused or call.until is None else call.until.what)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)


_PASSING = ("rebalance", "momentarily", "IO Error trying to forward REST request")


def is_rebalance(answer: Response) -> bool:
    """Whether a worker refuses because its group moves, and not because of what was asked.

    With 409, or with 500 where it reads, or forwards to a leader that is gone.
    """
    message = answer.body.get("message", "") if isinstance(answer.body, dict) else ""
    return answer.status in (409, 500) and any(words in message for words in _PASSING)


def keep(call: Call, answer: Response, stage: Stage, version: str) -> Kept:
    """An answer without what belongs to this run alone."""
    body = stage.names.take_out(answer.body)
    if not call.request.startswith("GET"):
        body = as_written(body)
    if call.shape is not None and answer.late is None:
        body = call.shape(body)
    return Kept(
        call.name,
        call.request,
        answer.status,
        stage.names.take_out(dict(answer.headers)),
        settled(body, version),
        answer.late,
    )


def _once(call: Call, stage: Stage) -> Response:
    try:
        return stage.send(
            stage.names.put_in(call.request),
            to=call.to,
            body=stage.names.put_in(call.body),
            headers=stage.names.put_in(dict(call.headers)),
        )
    except (OSError, HTTPException) as error:
        return Response(0, {}, type(error).__name__)


def by_arrangement(resources: Sequence[Resource]) -> dict[str, list[Resource]]:
    """Resources that share their workers, by the arrangement's name, in the order in which they stand."""
    grouped: dict[str, list[Resource]] = {}
    for resource in resources:
        grouped.setdefault(resource.arrangement.name, []).append(resource)
    return grouped

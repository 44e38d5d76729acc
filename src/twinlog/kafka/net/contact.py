"""Tracks whether a cluster answers: when a broker last answered, and since when none does.

The requests that are sent anyway are enough for that: a broker that is gone breaks its connections, and one that hangs
leaves a request open for longer than any answer takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twinlog.model.reach import ClusterReachability

SILENT_S = 3.0
"""A request that is open for so much longer than a broker may hold it back gets no answer any more."""

SURE_S = 1.0
"""A fault is no outage before it has lasted so long: leaders move, and the next broker answers."""


@dataclass(slots=True)
class _Question:
    node: int | None
    asked_at: float
    due_at: float


class Contact:
    """Requests to one cluster and their outcomes. Any thread may read it, one writes it."""

    def __init__(self, why: Callable[[], str], clock: Callable[[], float]) -> None:
        self._why = why
        self._clock = clock
        self._open: dict[int, _Question] = {}
        self._number = 0
        self._answered_at: float | None = None
        self._failed_at: float | None = None
        self._data: dict[int, float] = {}

    def record_request(self, node: int | None, patience_s: float = 0.0) -> int:
        """A request was sent, which the broker may hold back for `patience_s`; returns its number."""
        now = self._clock()
        self._number += 1
        self._open[self._number] = _Question(node, now, now + patience_s + SILENT_S)
        return self._number

    def record_answer(self, number: int, *, data: bool = False) -> None:
        """An answer came, an error code too; `data` on a connection for data."""
        question = self._open.pop(number, None)
        self._answered_at = now = self._clock()
        self._failed_at = None
        if data and question is not None and question.node is not None:
            self._data[question.node] = now

    def record_failure(self, number: int) -> None:
        """No answer will come."""
        question = self._open.pop(number, None)
        if self._failed_at is None:
            now = self._clock()
            # A request that timed out was without an answer all the time.
            overdue = question is not None and question.due_at < now
            self._failed_at = question.asked_at if overdue and question is not None else now

    def drop_request(self, number: int) -> None:
        """The caller no longer waits for an answer."""
        self._open.pop(number, None)

    def waits(self) -> tuple[int | None, float] | None:
        """The broker (None: any) that a request has waited for the longest, and for how many seconds; None while no
        request is open."""
        oldest = min(list(self._open.values()), key=lambda question: question.asked_at, default=None)
        return None if oldest is None else (oldest.node, self._clock() - oldest.asked_at)

    def data_at(self, node: int) -> float | None:
        """When a broker last answered on its connection for data (monotonic seconds), None if it never did."""
        return self._data.get(node)

    @property
    def heard_s(self) -> float:
        """Seconds since any broker answered; infinite before the first answer."""
        return float("inf") if self._answered_at is None else self._clock() - self._answered_at

    def reach(self) -> ClusterReachability:
        """Whether the cluster answers now."""
        now, answered = self._clock(), self._answered_at
        since = self._failed_at if self._failed_at is not None and now - self._failed_at >= SURE_S else None
        overdue = [question.asked_at for question in list(self._open.values()) if question.due_at < now]
        silent = min(overdue, default=None)
        if silent is not None:
            # A broker may be silent while others answer.
            silent = max(silent, answered or silent)
            if now - silent >= SILENT_S:
                since = silent if since is None else min(since, silent)
        heard_s = -1.0 if answered is None else now - answered
        if since is None:
            return ClusterReachability(heard_s=heard_s)
        why = "no answer" if self._failed_at is None else self._why()
        return ClusterReachability(heard_s=heard_s, out_s=now - since, why=why)

"""Tracks whether a cluster answers: the time of the last answer, and the beginning of an outage.

The usual requests are enough for that: an absent broker breaks its connections, and a hanging broker leaves a request
open for longer than any answer takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twinlog.model.reach import ClusterReachability

SILENT_S = 3.0
"""A request that is open for so many seconds longer than a broker may hold it back counts as unanswered."""

SURE_S = 1.0
"""A fault counts as an outage after so many seconds: leaders move, and the next broker answers."""


@dataclass(slots=True)
class _Question:
    node: int | None
    asked_at: float
    due_at: float


class Contact:
    """Requests to a cluster and their outcomes. Any thread may read them; a single thread writes them."""

    def __init__(self, why: Callable[[], str], clock: Callable[[], float]) -> None:
        self._why = why
        self._clock = clock
        self._open: dict[int, _Question] = {}
        self._number = 0
        self._answered_at: float | None = None
        self._failed_at: float | None = None
        self._data: dict[int, float] = {}

    def record_request(self, node: int | None, patience_s: float = 0.0) -> int:
        """Note a request, which the broker may hold back for `patience_s`; returns its number."""
        now = self._clock()
        self._number += 1
        self._open[self._number] = _Question(node, now, now + patience_s + SILENT_S)
        return self._number

    def record_answer(self, number: int, *, data: bool = False) -> None:
        """Note an answer, also an error code; `data` on a connection for data."""
        question = self._open.pop(number, None)
        self._answered_at = now = self._clock()
        self._failed_at = None
        if data and question is not None and question.node is not None:
            self._data[question.node] = now

    def record_failure(self, number: int) -> None:
        """Note that a request failed."""
        question = self._open.pop(number, None)
        if self._failed_at is None:
            now = self._clock()
            # A request that timed out was open all the time.
            overdue = question is not None and question.due_at < now
            self._failed_at = question.asked_at if overdue and question is not None else now

    def drop_request(self, number: int) -> None:
        """Drop a request whose caller has stopped waiting for an answer."""
        self._open.pop(number, None)

    def waits(self) -> tuple[int | None, float] | None:
        """The broker (None: any) of the longest open request, and its wait in seconds.

        None if all requests are answered.
        """
        oldest = min(list(self._open.values()), key=lambda question: question.asked_at, default=None)
        return None if oldest is None else (oldest.node, self._clock() - oldest.asked_at)

    def data_at(self, node: int) -> float | None:
        """The monotonic second of a broker's last answer on its connection for data, None before its first answer."""
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
            # A broker may be silent while other brokers answer.
            silent = max(silent, answered or silent)
            if now - silent >= SILENT_S:
                since = silent if since is None else min(since, silent)
        heard_s = -1.0 if answered is None else now - answered
        if since is None:
            return ClusterReachability(heard_s=heard_s)
        why = "no answer" if self._failed_at is None else self._why()
        return ClusterReachability(heard_s=heard_s, out_s=now - since, why=why)

"""Tracks whether a cluster answers, and explains why a broker is unreachable, with the way out.

The usual requests are enough for that: an absent broker breaks its connections, and a hanging broker leaves a request
open for longer than any answer takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kafka.errors import (
    IllegalSaslStateError,
    IncompatibleBrokerVersion,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
)

from twinlog.kafka.auth.refusal import PROTOCOL, NoTokenError
from twinlog.kafka.protocol.error_codes import in_words
from twinlog.model.reach import ClusterReachability

SILENT_S = 3.0
"""A request that is open for so many seconds longer than a broker may hold it back counts as unanswered."""

SURE_S = 1.0
"""A fault counts as an outage after so many seconds: leaders move, and the next broker answers."""

_TLS_RECORD = (0x14, 0x15, 0x16)
"""The first byte of a record of TLS: change of cipher, alert, handshake. The major version, 3, follows."""

_THROTTLES = "throttles this client, as it is over a quota"


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
        self._data: dict[tuple[int, int], float] = {}

    def record_request(self, node: int | None, patience_s: float = 0.0) -> int:
        """Note a request, which the broker may hold back for `patience_s`; returns its number."""
        now = self._clock()
        self._number += 1
        self._open[self._number] = _Question(node, now, now + patience_s + SILENT_S)
        return self._number

    def record_answer(self, number: int, *, data: int | None = None) -> None:
        """Note an answer, also an error code; `data` is the number of the connection, if it is for data."""
        question = self._open.pop(number, None)
        self._answered_at = now = self._clock()
        self._failed_at = None
        if data is not None and question is not None and question.node is not None:
            self._data[question.node, data] = now

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

    def data_at(self, node: int, connection: int = 0) -> float | None:
        """The monotonic second of a broker's last answer on a connection for data, None before its first answer."""
        return self._data.get((node, connection))

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


def unreachable(
    failures: Mapping[str, BaseException], servers: tuple[str, ...], protocol: str, timeout_s: float
) -> str:
    """The error of each bootstrap server that was tried; `failures` by `host:port`, `protocol` as Kafka names it."""
    if not failures:
        return f"none of {', '.join(servers)} answered within {timeout_s:g} s"
    reasons = "; ".join(f"{address}: {reason(error, protocol)}" for address, error in sorted(failures.items()))
    return f"no broker can be reached: {reasons}"


def note_failure(failures: dict[str, BaseException], address: str, error: BaseException) -> None:
    """Keep the reason why a connection to `host:port` failed; a timeout explains less than the previous reason.

    The last attempt before the end of a caller's own time is short, and must not hide a refused login.
    """
    if address not in failures or not _timed_out(error):
        failures[address] = error


def reasons(failures: Iterable[Mapping[str, BaseException]], protocol: str, *, connected: bool) -> str:
    """The reason why each broker is unreachable, by the `failures` of several managers of connections.

    `connected` when the cluster has answered before, and so the protocol is right.
    """
    errors: dict[str, BaseException] = {}
    for some in failures:
        for address, error in some.items():
            note_failure(errors, address, error)
    texts = []
    for address, error in sorted(errors.items()):
        broke = connected and "disconnected" in str(error)
        texts.append(f"{address}: {'the connection broke' if broke else reason(error, protocol)}")
    return "; ".join(texts) or "no answer"


def reason(error: BaseException, protocol: str) -> str:
    """The reason why a connection failed."""
    if isinstance(error, NoTokenError):
        return error.sentence
    text = str(error)
    frame = re.search(r"a frame of (\d+) bytes", text)
    if frame is not None:
        first = int(frame[1]).to_bytes(4, "big")
        if _begins_like_tls(first):
            return f"the port uses TLS, and {PROTOCOL} is {protocol}; set SSL or SASL_SSL, or use another port"
        if first == b"HTTP":
            return "the port answers in HTTP; is this a broker?"
    if isinstance(error, IncompatibleBrokerVersion):
        return "it is not a broker for clients; is it the port of a controller?"
    if "ECONNREFUSED" in text:
        return "connection refused; is the broker running, and is this its port?"
    if "DNS" in text:
        return "the host name is not known"
    if "EHOSTUNREACH" in text or "ENETUNREACH" in text:
        return "no route to that host"
    if any(sign in text for sign in ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF", "record layer")):
        return f"the port does not use TLS, and {PROTOCOL} is {protocol}"
    if _timed_out(error):
        return "no answer in time; is the broker alive, and does a firewall drop packets?"
    if isinstance(error, IllegalSaslStateError):
        return f"the port does not want a login, and {PROTOCOL} is {protocol}"
    if "socket disconnected" in text or "ECONNRESET" in text:
        return f"it closes the connection; does the port want another {PROTOCOL} than {protocol}?"
    return (
        in_words(error) or type(error).__name__ if isinstance(error, KafkaError) else f"{type(error).__name__}: {text}"
    )


def throttles(node: int | None) -> str:
    """The trouble of a broker that is healthy, and delays requests by a quota."""
    return f"broker {node} {_THROTTLES}"


def is_throttle(trouble: str) -> bool:
    """Whether the trouble of a partition, perhaps from another process, is only a throttle."""
    return _THROTTLES in trouble


def _timed_out(error: BaseException) -> bool:
    # The text of a failed handshake has these words.
    return isinstance(error, KafkaTimeoutError | RequestTimedOutError) or "timed out" in str(error)


def _begins_like_tls(first: bytes) -> bool:
    return first[0] in _TLS_RECORD and first[1] == 3

"""What goes wrong with requests, as a test scripts it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from harness.virtual.requests import (
    ADD_PARTITIONS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DESCRIBE_CONFIGS,
    LIST_OFFSETS,
    PRODUCE,
    WRITE_TXN_MARKERS,
)

CODED = frozenset(
    {
        *(ADD_PARTITIONS, CREATE_PARTITIONS, CREATE_TOPICS, DELETE_RECORDS, DESCRIBE_CONFIGS, LIST_OFFSETS, PRODUCE),
        WRITE_TXN_MARKERS,
    }
)
"""The requests that are answered with codes of single partitions or topics, if a test says so."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of a request: an error `code` instead of an answer, an answer that is late, or none.

    `lost` breaks the connection; with `done` only after the request was carried out. With `throttle_s` it is answered
    as usual, and nothing more may be sent for so long (KIP-219).
    """

    code: int = 0
    delay_s: float = 0.0
    lost: bool = False
    done: bool = False
    throttle_s: float = 0.0


@dataclass(slots=True)
class _Rule:
    key: int
    fault: Fault
    times: int
    topic: str | None


class Faults:
    """The script of one cluster: what goes wrong next."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._codes: dict[tuple[int, str, int], deque[int]] = {}

    def add(self, key: int, fault: Fault, *, times: int = 1, topic: str | None = None) -> None:
        """So many next requests with this API key, of those that name the topic if there is one, go wrong."""
        self._rules.append(_Rule(key, fault, times, topic))

    def add_codes(self, key: int, topic: str, partition: int, codes: Iterable[int]) -> None:
        """The next requests with this API key get these error codes for one partition of a topic; 0 is no error."""
        assert key in CODED, key
        self._codes.setdefault((key, topic, partition), deque()).extend(codes)

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        self._rules.clear()
        self._codes.clear()

    @property
    def left(self) -> int:
        """How many are still to come."""
        return sum(rule.times for rule in self._rules) + sum(map(len, self._codes.values()))

    def next(self, key: int, topics: set[str]) -> Fault:
        for rule in self._rules:
            if rule.key == key and rule.times and (rule.topic is None or rule.topic in topics):
                rule.times -= 1
                return rule.fault
        return Fault()

    def code(self, key: int, topic: str, partition: int = -1) -> int:
        codes = self._codes.get((key, topic, partition))
        return codes.popleft() if codes else 0

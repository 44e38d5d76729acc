"""The backlog of a flow, and how busy its copiers are with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backlog:
    """`lag` offsets wait, `elsewhere` of them outside of the partition with the largest lag.

    Each copier computes for at least the share `busy` of the time, and together the copiers copy `records_per_s`.
    """

    busy: float = 0.0
    lag: int = 0
    elsewhere: int = 0
    records_per_s: float = 0.0

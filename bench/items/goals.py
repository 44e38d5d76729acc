"""Goals of an item: bounds for a figure or for a ratio of figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SHARE = "share_of_limit"
"""The figure that is a system's records per second as a share of the brokers' own limit."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A bound for one figure or for a ratio, mostly twinlog / MirrorMaker 2; one of the two is None."""

    at_least: float | None = None
    at_most: float | None = None

    def met(self, ratio: float) -> bool:
        if self.at_least is not None:
            return ratio >= self.at_least
        return self.at_most is None or ratio <= self.at_most

    def __str__(self) -> str:
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for the ratio of twinlog's figure to the same figure of the system `of`, or for the figure itself."""

    figure: str
    wanted: Wanted
    of: Literal["mm2", "franz"] | None = None

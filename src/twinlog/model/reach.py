"""Whether a cluster answers, as values that travel from tasks to the driver."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterReachability:
    """Whether a cluster answers, in seconds up to the moment of the report.

    `heard_s` counts from the last answer of a broker (-1: still waiting for the first). `out_s` counts from the first
    unanswered request (-1: brokers answer). `why` is the reason, if it is known.
    """

    heard_s: float = -1.0
    out_s: float = -1.0
    why: str | None = None

    @property
    def out(self) -> bool:
        return self.out_s >= 0

    def rounded(self) -> ClusterReachability:
        """The same to the millisecond."""
        return ClusterReachability(round(self.heard_s, 3), round(self.out_s, 3), self.why)

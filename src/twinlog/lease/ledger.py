"""What a driver knows of one flow's leases: the plan, who claimed which share of it, and who holds which partition."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from twinlog.lease.claims import Claims
from twinlog.lease.copier_session import CopierSession
from twinlog.lease.holdings import Holdings


@dataclass(slots=True)
class Ledger:
    """Read and written only under the lock `changed`, which wakes the threads that wait for a change."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    sessions: set[CopierSession] = field(default_factory=set)
    """All copiers that are connected."""
    shares: Claims = field(default_factory=Claims)
    holdings: Holdings = field(default_factory=Holdings)
    lease: int = 0
    """The number of the current lease; 0 before the first."""
    version: int = 0
    """Counts plans and leases: work begun for an earlier one is dropped."""
    stopping: bool = False

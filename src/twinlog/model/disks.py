"""Disks of brokers as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Disk:
    """A log directory of a broker; bytes of the volume that it is on, None before Kafka 3.3."""

    broker: int
    path: str
    total: int | None = None
    usable: int | None = None

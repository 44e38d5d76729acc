"""Client quotas of a cluster as values (KIP-546)."""

from __future__ import annotations

from dataclasses import dataclass

PRODUCER_BYTE_RATE = "producer_byte_rate"
"""Bytes per second that each client of an entity may append through a single broker."""


@dataclass(frozen=True, slots=True, order=True)
class QuotaEntity:
    """The entity of a quota: a user, a client id, or both.

    "" means every user or client id that lacks a quota of its own, None means that the entity lacks this part.
    """

    user: str | None = None
    client_id: str | None = None

    def __str__(self) -> str:
        parts = (("user", self.user), ("client-id", self.client_id))
        return " ".join(f"{kind} {name or '<default>'}" for kind, name in parts if name is not None)


EVERY_USER = QuotaEntity(user="")
"""All users that lack a quota of their own, including anonymous users.

The quota of this entity counts before all quotas that name a client id alone.
"""


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of an entity for appends; `rate` None means that the entity lacks a quota."""

    entity: QuotaEntity
    rate: float | None

    def __str__(self) -> str:
        if self.rate is None:
            return f"no {PRODUCER_BYTE_RATE} for {self.entity}"
        return f"{PRODUCER_BYTE_RATE} = {self.rate:g} for {self.entity}"

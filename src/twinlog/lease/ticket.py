"""The ticket with which Spark starts a task, as plain values.

A task of any version can read plain values and name its version.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from twinlog.lease.channel import DriverAddress
from twinlog.settings.flow import FlowSettings

Plain = tuple[str, str, int, bytes, int, int, bytes]
"""A ticket on its way: flow, host, port, secret, lease, share, and the pickled settings.

These values stay as they are for ever, so that a task of any version can greet its driver; new values may follow them.
"""


@dataclass(frozen=True, slots=True)
class LeaseTicket:
    """The share of a flow's lease that a task claims, and the address of its driver."""

    flow: str
    address: DriverAddress
    lease: int
    share: int
    pickled: bytes

    @classmethod
    def of(cls, settings: FlowSettings, address: DriverAddress, lease: int, share: int) -> LeaseTicket:
        return cls(settings.name, address, lease, share, pickle.dumps(settings))

    def pack(self) -> Plain:
        """The ticket as plain values."""
        address = self.address
        return self.flow, address.host, address.port, address.secret, self.lease, self.share, self.pickled

    @classmethod
    def unpack(cls, plain: tuple[Any, ...]) -> LeaseTicket:
        """A received ticket, perhaps of another version."""
        flow, host, port, secret, lease, share, pickled, *_ = plain
        return cls(flow, DriverAddress(host, port, secret), lease, share, pickled)

    def settings(self) -> FlowSettings:
        """The flow's settings, to be read after the greeting.

        Another version may lack a class of the settings, or have other fields in a class.
        """
        settings: FlowSettings = pickle.loads(self.pickled)
        return settings

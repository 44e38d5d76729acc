"""What Spark starts a task with, as plain values: what a task cannot read must not keep it from naming its version."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from twinlog.lease.channel import DriverAddress
from twinlog.settings.flow import FlowSettings

Plain = tuple[str, str, int, bytes, int, int, bytes]
"""A ticket on its way: flow, host, port, secret, lease, share, and the pickled settings.

These stay as they are for ever, so that a task of any version can greet its driver; new ones may follow.
"""


@dataclass(frozen=True, slots=True)
class LeaseTicket:
    """Which share of which flow's lease a task is to claim, and where its driver is."""

    flow: str
    address: DriverAddress
    lease: int
    share: int
    pickled: bytes

    @classmethod
    def of(cls, settings: FlowSettings, address: DriverAddress, lease: int, share: int) -> LeaseTicket:
        return cls(settings.name, address, lease, share, pickle.dumps(settings))

    def pack(self) -> Plain:
        """As it travels."""
        address = self.address
        return self.flow, address.host, address.port, address.secret, self.lease, self.share, self.pickled

    @classmethod
    def unpack(cls, plain: tuple[Any, ...]) -> LeaseTicket:
        """A ticket that came, perhaps of another version."""
        flow, host, port, secret, lease, share, pickled, *_ = plain
        return cls(flow, DriverAddress(host, port, secret), lease, share, pickled)

    def settings(self) -> FlowSettings:
        """The flow's settings. Only for who has greeted the driver: another version may lack one of their classes, or
        have other fields in it."""
        settings: FlowSettings = pickle.loads(self.pickled)
        return settings

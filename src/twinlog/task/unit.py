"""What comes of one fetch of a partition when a transform routes some of it to other partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from twinlog.errors import TwinlogError
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.write.appends import Append, CopyRules, RoutedRows


class Owner(Protocol):
    """The partition that was read."""

    @property
    def source(self) -> TopicPartition: ...

    @property
    def remote(self) -> TopicPartition: ...

    @property
    def rules(self) -> CopyRules: ...

    def waits_for(self, unit: Unit) -> bool:
        """Whether this unit is to be appended still."""

    def send_own(self, unit: Unit) -> None:
        """The routed appends of a transactional unit are sent: its own ones go with them."""

    def routed(self, unit: Unit, append: Append) -> None:
        """The target acknowledged a routed append, and perhaps with it all of them."""

    def hinder(self, trouble: str) -> None:
        """Report what keeps the unit from being appended."""

    def fail(self, error: TwinlogError) -> None:
        """The unit never can be appended."""


class Unit:
    """`own` appends and routed `rows` of one fetch from source offset `begin` on. The routed ones are `sent` once they
    are queued, and `left` of them are not acknowledged."""

    __slots__ = ("begin", "left", "own", "owner", "rows", "sent")

    def __init__(self, owner: Owner, begin: SourceOffset, own: Sequence[Append], rows: Sequence[RoutedRows]) -> None:
        self.begin = begin
        self.owner = owner
        self.own = list(own)
        self.rows = rows
        self.sent = False
        self.left = 0

    @property
    def wanted(self) -> bool:
        """Whether its partition waits for it."""
        return self.owner.waits_for(self)

    @property
    def arrived(self) -> bool:
        """All routed appends are acknowledged."""
        return self.sent and not self.left

    def acknowledged(self, append: Append) -> None:
        """The target acknowledged one of its routed appends, or will not get it."""
        self.left -= 1
        self.owner.routed(self, append)

    def split(self, more: int) -> None:
        """One of its routed appends became so many more."""
        self.left += more

"""The first record of a topic to copy: at the begin, at the end, or at a time, as `auto.offset.reset` names it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

StartKind = Literal["earliest", "latest", "none", "ago", "time"]


@dataclass(frozen=True, slots=True)
class Start:
    """A start at the first record, at the end, or at a time; `none` refuses to start.

    `ms` of `ago` is a duration before the moment at which the flow begins with the partition (KIP-1106). `ms` of `time`
    is a moment since 1970. The partition begins at the first record with that timestamp or a later timestamp, and at
    its end if all records are older. `text` is the value as it is written.
    """

    kind: StartKind = "earliest"
    ms: int = 0
    text: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        return self.text or self.kind

    def since_ms(self, begun_ms: int) -> int:
        """The least timestamp of the first record, for a partition that the flow begins with at `begun_ms`.

        For `latest` the timestamp is the moment itself.
        """
        if self.kind == "time":
            return self.ms
        return max(0, begun_ms - self.ms)


FROM_EARLIEST = Start()

"""Where a partition begins that was never copied, as `auto.offset.reset` and `twinlog.start` have it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

StartKind = Literal["earliest", "latest", "none", "ago", "time"]


@dataclass(frozen=True, slots=True)
class Start:
    """At the first record, at the end, not at all (`none`), or at a time.

    `ms` of `ago` is a duration before the moment at which the flow begins with the partition (KIP-1106), `ms` of `time`
    is a moment since 1970: the partition begins at the first record with that timestamp or a later timestamp, and at
    its end where no record has one. `text` is the value as it is written.
    """

    kind: StartKind = "earliest"
    ms: int = 0
    text: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        return self.text or self.kind

    def since_ms(self, begun_ms: int) -> int:
        """The timestamp that the first record may have, of a partition that the flow begins with at `begun_ms`.

        For `latest` that is the moment itself.
        """
        if self.kind == "time":
            return self.ms
        return max(0, begun_ms - self.ms)


FROM_EARLIEST = Start()

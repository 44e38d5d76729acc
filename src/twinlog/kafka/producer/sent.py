"""An append that was sent, until it is acknowledged: its sequence number, and what the target answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from twinlog.kafka.producer.appends import Append
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.produce_request import Appended
from twinlog.model.types import TargetOffset

NO_ANSWER = -2
"""Code of an append whose request got no answer: it may be on the target, so it is sent again unchanged."""

UNVERIFIED = -3
"""Code of an append whose sequence numbers the target has already; its records may be other ones."""

CORRUPT_RETRIES = 5
"""How often a batch that the target finds corrupt is sent again: it may have been damaged on its way.

Kafka's producer goes on for `delivery.timeout.ms` (class CorruptRecordException is retriable), which has no end here.
"""

NOWHERE = TargetOffset(-1)
"""Not appended yet, or the target offset is unknown."""


class SendState(Enum):
    """`AGAIN` is an append that failed and may be sent again, in its turn."""

    IN_FLIGHT = 1
    DONE = 2
    FAILED = 3
    AGAIN = 4


@dataclass(slots=True)
class SentAppend:
    """One append in the window: its sequence number, and the broker's answer (`code`; `base_offset` on the target).

    `failures` counts how often it held up the others, `unreached` how often of these for want of a connection, and
    `corrupt` how often because the target found it corrupt.
    `reached`: the last try had a connection, as far as is known. `behind`: an append before it was not acknowledged
    when its answer came. `unverified`: the target may have an earlier writer's append under its sequence numbers.
    `counted`: it was subtracted from the bytes of late appends. `refusal` is the broker's last error.
    """

    append: Append
    sequence: int
    state: SendState = SendState.IN_FLIGHT
    code: int = 0
    base_offset: TargetOffset = NOWHERE
    failures: int = 0
    unreached: int = 0
    corrupt: int = 0
    reached: bool = True
    behind: bool = False
    unverified: bool = False
    counted: bool = False
    refusal: Appended | None = None

    @property
    def again(self) -> bool:
        """Whether to send it again with the same bytes and sequence numbers (Kafka class Sender)."""
        if self.code == Code.CORRUPT_MESSAGE:
            return self.corrupt <= CORRUPT_RETRIES
        return self.code == NO_ANSWER or self.code in error_codes.RETRIABLE

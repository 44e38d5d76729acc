"""An append that was sent, until it is acknowledged: its sequence number and the target's answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from twinlog.kafka.producer.appends import Append
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.produce_request import Appended
from twinlog.model.types import TargetOffset

NO_ANSWER = -2
"""Code of an append whose answer is missing: the target may have it, so it is sent again unchanged."""

UNVERIFIED = -3
"""Code of an append whose sequence numbers the target has already, perhaps with other records."""

CORRUPT_RETRIES = 5
"""The number of retries of a batch that the target finds corrupt: the network may have damaged the batch.

Kafka's producer continues for `delivery.timeout.ms` (class CorruptRecordException is retriable), which is unlimited
here.
"""

NOWHERE = TargetOffset(-1)
"""The append is unacknowledged, or its target offset is unknown."""


class SendState(Enum):
    """The state of a sent append; `AGAIN` is a failed append that may be sent again, in its turn."""

    IN_FLIGHT = 1
    DONE = 2
    FAILED = 3
    AGAIN = 4


@dataclass(slots=True)
class SentAppend:
    """An append in the window: its sequence number, and the broker's answer (`code`; `base_offset` on the target).

    `failures` counts the failures that held up later appends. `unreached` counts the failures for want of a connection,
    and `corrupt` the failures because the target found the batch corrupt. `reached`: the last try had a connection, as
    far as is known. `behind`: an earlier append was unacknowledged when the answer came. `unverified`: the target may
    have an earlier writer's append under these sequence numbers. `counted`: the append was subtracted from the bytes of
    late appends. `refusal` is the broker's last error.
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
        """Whether to send the append again with the same bytes and sequence numbers (Kafka class Sender)."""
        if self.code == Code.CORRUPT_MESSAGE:
            return self.corrupt <= CORRUPT_RETRIES
        return self.code == NO_ANSWER or self.code in error_codes.RETRIABLE

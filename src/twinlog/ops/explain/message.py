"""A message of twinlog: its id, the shape of its line, the meaning, and the next steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]

STATUS = "twinlog status mm2.properties"
"""The first command to run for most messages."""

REPORT = (
    "If the message returns after these steps, save the log from an hour before the message, the output of `twinlog "
    "status`, and the version (`twinlog --version`), and give them to the people who maintain twinlog."
)
"""The last step for messages that operators can resolve in most cases."""

UNAFFECTED = "Records and consumer groups are unaffected."
WAITS = "The flow waits, and continues at its stored positions once the cause is gone."
ONE_PARTITION_WAITS = "This partition waits; all other partitions are copied."
NOTHING_CHANGED = "The command or process ends before any change."
COPIES_NOTHING = "The flow copies no record until the cause is gone."
LEFT_OUT = "twinlog leaves the topics out; all other topics are copied."
NOTHING_TO_DO = "There is nothing to do."


@dataclass(frozen=True, slots=True)
class Message:
    """An entry of the table: `TW-GAP-01` and the answers to an operator's questions.

    `lines` are shapes of lines in backticks: capital letters, `...`, east and west are placeholders. `impact` is the
    effect on records and consumer groups, `mend` the change that ends the trouble. An empty `meaning` means that title
    and lines say all. `look` has commands; an empty `look` or `escalate` is the area's. Texts are Markdown, and links
    are relative to docs/.

    `in_line` is False for a line for information, which has no id. A `retired` id is in lines of earlier versions only;
    a number is never used for a second message.
    """

    id: str
    title: str
    severity: Severity
    lines: tuple[str, ...]
    meaning: str
    impact: str
    mend: str
    look: tuple[str, ...] = ()
    escalate: str = ""
    in_line: bool = True
    retired: bool = False

    @property
    def shapes(self) -> tuple[str, ...]:
        """The lines as they are in a log."""
        return tuple(line.strip("`") for line in self.lines)

    @property
    def area(self) -> str:
        """`GAP` of `TW-GAP-01`."""
        return self.id.split("-")[1]


@dataclass(frozen=True, slots=True)
class Area:
    """The messages of a subject. `look` and `escalate` count for messages without their own."""

    name: str
    title: str
    about: str
    messages: tuple[Message, ...]
    look: tuple[str, ...] = (STATUS,)
    escalate: str = REPORT

    def looks_of(self, message: Message) -> tuple[str, ...]:
        """The commands that show more about a message of this area."""
        return message.look or self.look

    def escalation_of(self, message: Message) -> str:
        """The step after `mend` for a message of this area."""
        return message.escalate or self.escalate


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the documentation, `docs/messages/NAME.md`, with the messages of some areas."""

    name: str
    title: str
    areas: tuple[Area, ...]

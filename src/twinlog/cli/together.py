"""Joins equal warnings about several flows or topics within a moment into one line."""

from __future__ import annotations

import copy
import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.model.topics import listed

HOLD_S = 2.0
"""A warning waits so long for equal ones."""

_TOPICS = "\0"
_FLOW = re.compile(r"(\S+->\S+): (.*)", re.DOTALL)


@dataclass(slots=True)
class _Held:
    record: logging.LogRecord
    flows: dict[str, None] = field(default_factory=dict)
    topics: dict[str, None] = field(default_factory=dict)


class Together(logging.Handler):
    """Passes records on to another handler, warnings of flows a little later, but before what their flows log next.

    A warning begins with the name of its flow. It may have `of`, topics that it lists: warnings that are equal
    but for these are joined, too.
    """

    def __init__(self, to: logging.Handler, hold_s: float = HOLD_S) -> None:
        super().__init__()
        self._to = to
        self._hold_s = hold_s
        self._held: dict[str, _Held] = {}
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        found = _FLOW.fullmatch(record.getMessage())
        if found is None or record.levelno != logging.WARNING or record.exc_info:
            # Else a flow that goes on again would be read as one that has just been stopped.
            self._pass_on({text: held for text, held in self._held.items() if found and found[1] in held.flows})
            self._to.handle(record)
            return
        flow, text = found.groups()
        topics = getattr(record, "of", ())
        held = self._held.setdefault(text.replace(listed(topics), _TOPICS, 1) if topics else text, _Held(record))
        held.flows[flow] = None
        held.topics.update(dict.fromkeys(topics))
        if self._timer is None:
            timer = threading.Timer(self._hold_s, self.flush)
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError:
                # No thread can be started: written at once.
                self.flush()
            else:
                self._timer = timer

    def flush(self) -> None:
        """Log what waits now."""
        self.acquire()
        try:
            self._timer = None
            self._pass_on(dict(self._held))
            self._to.flush()
        finally:
            self.release()

    def _pass_on(self, waiting: Mapping[str, _Held]) -> None:
        for text, held in waiting.items():
            del self._held[text]
            record = copy.copy(held.record)
            joined = text.replace(_TOPICS, listed(held.topics), 1)
            record.msg, record.args = f"{', '.join(held.flows)}: {joined}", ()
            self._to.handle(record)

"""The remote topics whose creation or growth the target refused, and the time of each next attempt."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from twinlog.clock import Clock
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.retry import BUSY_CONTROLLER, REFUSED
from twinlog.mirror.topics.changes import TopicPair
from twinlog.model.topics import Refusal, listed
from twinlog.model.types import TopicName
from twinlog.process.log_once import AGAIN_S, LogOnce

log = logging.getLogger(__name__)


class RefusedTopics:
    """The refused remote topics of a flow, by the last attempts; for a single thread."""

    def __init__(self, flow: str, clock: Clock) -> None:
        self._flow = flow
        self._clock = clock
        self._refusals: dict[TopicName, Refusal] = {}
        self._retry_at: dict[TopicName, float] = {}
        self._backoff = BUSY_CONTROLLER.backoff()
        self._logged = LogOnce(clock)

    def retry_all(self) -> None:
        """Make all refused topics due at once, after a change of the settings."""
        self._retry_at.clear()
        self._logged = LogOnce(self._clock)

    def keep_lacking(self, lacking: Iterable[TopicPair]) -> None:
        """Forget the refusals of other pairs: a user may have created or grown a refused topic meanwhile."""
        remotes = {pair.remote for pair in lacking}
        self._refusals = {remote: refusal for remote, refusal in self._refusals.items() if remote in remotes}
        self._retry_at = {remote: at for remote, at in self._retry_at.items() if remote in remotes}

    def due(self, pairs: Sequence[TopicPair]) -> list[TopicPair]:
        """The pairs without recent refusals: a permission may be granted while the flow runs."""
        now = self._clock.monotonic()
        return [pair for pair in pairs if self._retry_at.get(pair.remote, now) <= now]

    def note_attempts(self, tried: Sequence[TopicPair], refused: Mapping[TopicName, Refusal]) -> None:
        """Note the outcome of attempts, and log new refusals that last."""
        for pair in tried:
            refusal = refused.get(pair.remote)
            if refusal is None:
                self._refusals.pop(pair.remote, None)
                continue
            if refusal.code not in error_codes.RETRIABLE and self._refusals.get(pair.remote) != refusal:
                log.error("TW-TOPIC-15: %s: remote topic %s: %s", self._flow, pair.remote, refusal.text)
            self._refusals[pair.remote] = refusal
            self._retry_at[pair.remote] = self._clock.monotonic() + REFUSED.first_s

    def pause_busy(self, tried: Sequence[TopicPair]) -> None:
        """Choose the time of the next attempt for topics that the busy target has just refused, and log these topics.

        The pause grows while the target takes none of the tried topics.
        """
        waiting = self._busy
        busy = {pair.remote for pair in tried}.intersection(waiting)
        if len(busy) < len(tried):
            self._backoff.reset_failures()
        if not busy:
            return
        again_at = self._clock.monotonic() + self._backoff.count_failure()
        self._retry_at.update(dict.fromkeys(busy, again_at))
        if self._logged.is_new(BUSY_CONTROLLER, AGAIN_S):
            log.warning(
                "TW-TOPIC-16: %s: remote topics are not created or grown yet, and are tried again: %s (%s)",
                *(self._flow, listed(waiting), self._refusals[min(busy)].text),
            )

    @property
    def _busy(self) -> list[TopicName]:
        """Refused topics that the target may take a moment later."""
        return [remote for remote, refusal in self._refusals.items() if refusal.code in error_codes.RETRIABLE]

    @property
    def busy_until(self) -> float:
        """The earliest time, in monotonic seconds, at which a busy target is asked again; infinite without any."""
        return min((self._retry_at.get(remote, inf) for remote in self._busy), default=inf)

    @property
    def reasons(self) -> dict[TopicName, str]:
        """The reason of each refusal, by the remote topic."""
        return {remote: refusal.text for remote, refusal in dict(self._refusals).items()}

    @property
    def summary(self) -> str | None:
        """The names of refused remote topics, and the reason of the first of them; None if the target takes all."""
        reasons = self.reasons
        return f"{listed(reasons)}: {reasons[min(reasons)]}" if reasons else None

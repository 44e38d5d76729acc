"""A flow that is not enabled: it writes heartbeats to its target and copies nothing, as in MirrorMaker 2."""

from __future__ import annotations

import logging
from collections.abc import Callable

from twinlog.kafka.admin import ClusterAdmin
from twinlog.run.jobs import Jobs
from twinlog.run.upkeep import begin_heartbeats
from twinlog.settings import FlowSettings

log = logging.getLogger(__name__)


class IdleFlow:
    """Needs no Spark, and nobody waits for it to catch up; it writes as long as `allowed()` says so."""

    def __init__(self, settings: FlowSettings, allowed: Callable[[], bool] = lambda: True) -> None:
        self.settings = settings
        self.trouble: str | None = None
        """Why the last heartbeat was not written; None when it was."""
        self._target = ClusterAdmin(settings.target, settings.target_admin.client)
        self._target.client.append_only_while(allowed)
        self._jobs = Jobs(settings.name, self._note)

    def start(self) -> None:
        log.info("%s: not enabled, only heartbeats are written to %s", self.settings.name, self.settings.target)
        begin_heartbeats(self._jobs, self.settings, self._target)

    def stop(self, timeout_s: float) -> None:
        self._jobs.stop(timeout_s)

    def close(self) -> None:
        self._target.close()

    def _note(self, what: str, trouble: str | None) -> None:
        self.trouble = trouble

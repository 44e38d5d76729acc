"""Lists, alters and resets the stored offsets of a connector when annotations of a resource ask for it.

Follows Strimzi's class AbstractConnectOperator: a file replaces Strimzi's ConfigMap, with the same names.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, cast

from twinlog.clock import LONG_AGO, Clock
from twinlog.config.strimzi.connection import Secrets
from twinlog.config.strimzi.resource import PlannedConnector
from twinlog.config.text.providers import MissingError
from twinlog.connect.rest import bodies, responses
from twinlog.connectors.model import ConnectorName, StoredOffset, TargetState
from twinlog.errors import NotOwnerError, RequestError
from twinlog.kafka.retry import OFFSETS_ANNOTATION
from twinlog.log_once import AGAIN_S, LogOnce

log = logging.getLogger(__name__)

OFFSETS = "strimzi.io/connector-offsets"
CONNECTOR = "strimzi.io/mirrormaker-connector"

Action = Literal["list", "alter", "reset"]
_ACTIONS = ("list", "alter", "reset")


class OffsetHerder(Protocol):
    """The requests to a worker, see `WorkerHerder`."""

    def target_state(self, name: ConnectorName) -> TargetState: ...

    def offsets(self, name: ConnectorName) -> Sequence[StoredOffset]: ...

    def alter_offsets(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> str: ...

    def reset_offsets(self, name: ConnectorName) -> str: ...


@dataclass(frozen=True, slots=True)
class OffsetsAnnotation:
    """The action for the offsets of a connector; `config_map` names their destination or their origin."""

    action: Action
    connector: ConnectorName
    config_map: str | None = None

    @property
    def key(self) -> str:
        """The key of the ConfigMap; Kubernetes forbids `>` in a key."""
        return f"{self.connector.replace('->', '--')}.json"


def offsets_asked(annotations: Mapping[str, str], connectors: Sequence[PlannedConnector]) -> OffsetsAnnotation | None:
    """The action that the two annotations ask for; None when both are missing.

    Raises ValueError for a wrong annotation.
    """
    action, name = (annotations.get(key, "").strip() for key in (OFFSETS, CONNECTOR))
    if not action and not name:
        return None
    known = {one.name: one for one in connectors}
    if action not in _ACTIONS:
        raise ValueError(f"{OFFSETS}: {action!r}; expected list, alter or reset")
    if name not in known:
        raise ValueError(f"{CONNECTOR}: {name!r}; expected the connector whose offsets are meant: {', '.join(known)}")
    one = known[name]
    field = {"list": "listOffsets.toConfigMap", "alter": "alterOffsets.fromConfigMap"}.get(action)
    config_map = {"list": one.lists_to, "alter": one.alters_from}.get(action)
    if field is not None and config_map is None:
        raise ValueError(f"{OFFSETS}: {action}; expected {field}.name at the connector {name}")
    return OffsetsAnnotation(cast(Action, action), ConnectorName(name), config_map)


class OffsetsAnnotationHandler:
    """Applies annotations once; repeats a failed attempt while the annotations are present.

    Every process lists, into its own `folder`/NAME/KEY; the process that runs the connector changes the stored offsets.
    """

    def __init__(self, path: Path, folder: Path, worker: OffsetHerder, clock: Clock) -> None:
        self._path = path
        self._folder = folder
        self._worker = worker
        self._clock = clock
        self._asked: OffsetsAnnotation | None = None
        self._at = LONG_AGO
        self._logged = LogOnce(clock)

    def set_annotation(self, asked: OffsetsAnnotation | None) -> None:
        """Replace the action, after a change of the annotations."""
        self._asked, self._at = asked, self._clock.monotonic()

    def apply_annotation(self, secrets: Secrets) -> None:
        """Apply the annotation when it is due; `secrets` has the offsets to store."""
        asked = self._asked
        if asked is None or self._clock.monotonic() < self._at:
            return
        self._at = self._clock.monotonic() + OFFSETS_ANNOTATION.first_s
        try:
            if asked.action == "list":
                self._list(asked)
            else:
                self._change(asked, secrets)
        except NotOwnerError:
            log.info("connector %s: its offsets are left to the worker that has it", asked.connector)
        except (RequestError, MissingError, OSError) as error:
            if self._logged.is_new(str(error), AGAIN_S):
                log.warning("%s: %s: %s: tried again: %s", self._path, OFFSETS, asked.action, error)
            return
        self._asked = None

    def _list(self, asked: OffsetsAnnotation) -> None:
        assert asked.config_map is not None
        text = json.dumps(responses.offsets(self._worker.offsets(asked.connector)), indent=2)
        path = self._folder / Path(asked.config_map).name / asked.key
        path.parent.mkdir(parents=True, exist_ok=True)
        # Readers see either the complete file or the file before it.
        coming = path.with_name(f"..{asked.key}.{os.getpid()}")
        coming.write_text(f"{text}\n", "utf-8")
        coming.replace(path)
        log.info("connector %s: its offsets are in %s", asked.connector, path)

    def _change(self, asked: OffsetsAnnotation, secrets: Secrets) -> None:
        if self._worker.target_state(asked.connector) is not TargetState.STOPPED:
            raise RequestError(400, f"connector {asked.connector} is not stopped; write state: stopped at it")
        if asked.action == "reset":
            answer = self._worker.reset_offsets(asked.connector)
        else:
            assert asked.config_map is not None
            offsets = _parsed(self._text(asked.config_map, asked.key, secrets), f"{asked.key} of {asked.config_map}")
            answer = self._worker.alter_offsets(asked.connector, offsets)
        log.warning("connector %s: an annotation asks for it: %s", asked.connector, answer)

    def _text(self, name: str, key: str, secrets: Secrets) -> str:
        """The offsets that an administrator prepared; otherwise the list of the same name, with later changes."""
        try:
            return secrets.read(name, key)
        except MissingError:
            if secrets.directory == self._folder:
                raise
            return Secrets(directory=self._folder, environment={}).read(name, key)


def _parsed(text: str, where: str) -> list[StoredOffset]:
    try:
        return bodies.offsets_request(bodies.parse(text.encode()))
    except RequestError as error:
        raise RequestError(error.status, f"{where}: {error}") from None

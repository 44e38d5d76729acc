"""The names of a flow's keys at the place of its settings, for messages that name the key to change."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.model.types import Alias


@dataclass(frozen=True, slots=True)
class KeyNames:
    """Names in a file of MirrorMaker 2, with an alias or `A->B.` in front.

    A connector of a Connect worker lacks these prefixes, see ConnectorKeyNames.
    """

    source: Alias
    target: Alias

    def source_cluster(self, name: str) -> str:
        """A connection or security setting of the source."""
        return f"{self.source}.{name}"

    def target_cluster(self, name: str) -> str:
        """A connection or security setting of the target."""
        return f"{self.target}.{name}"

    def source_consumer(self, name: str) -> str:
        """A setting of the consumer that reads the source."""
        return f"{self.source}.consumer.{name}"

    def worker(self, name: str) -> str:
        """A setting of the worker."""
        return f"{self.target}.{name}"

    def connector(self, name: str) -> str:
        """A setting of the flow itself."""
        return f"{self.source}->{self.target}.{name}"


@dataclass(frozen=True, slots=True)
class ConnectorKeyNames(KeyNames):
    """Names in the configuration of a connector."""

    def source_cluster(self, name: str) -> str:
        return f"source.cluster.{name}"

    def target_cluster(self, name: str) -> str:
        return f"target.cluster.{name}"

    def source_consumer(self, name: str) -> str:
        return f"source.consumer.{name}"

    def worker(self, name: str) -> str:
        return f"the worker's {name}"

    def connector(self, name: str) -> str:
        return name

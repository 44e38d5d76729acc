"""One file of the corpus: what it is like, and what MirrorMaker 2 is seen to do with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from conformance.corpus.stock import GROUPS, STOCK
from harness.checks.differences import Known

FILES = Path(__file__).parent / "files"

Shape = Literal["dedicated", "connectors"]
"""A properties file of a dedicated MirrorMaker 2, or a folder of connectors for a worker of Connect."""


@dataclass(frozen=True, slots=True)
class Copies:
    """What MirrorMaker 2 copies by one flow, between two of the clusters `one`, `two` and `three`.

    A topic gets `prefix` before its name. `groups` have checkpoints, which are committed on the target if `synced`.
    With `heartbeats` those of the source arrive, too.
    """

    source: str
    target: str
    prefix: str = ""
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    synced: bool = False
    heartbeats: bool = True

    def remote(self, topic: str) -> str:
        return f"{self.prefix}{topic}"

    def records(self) -> dict[str, int]:
        """How many records each remote topic gets."""
        return {self.remote(topic): STOCK[self.source][topic].count for topic in self.topics}

    def ends(self) -> dict[str, dict[tuple[str, int], int]]:
        """Where each group stands in the end, by remote topic and partition: behind the last record."""
        found: dict[str, dict[tuple[str, int], int]] = {}
        for group in self.groups:
            for topic in set(GROUPS[self.source][group]) & set(self.topics):
                stock = STOCK[self.source][topic]
                for partition in range(stock.partitions):
                    found.setdefault(group, {})[self.remote(topic), partition] = stock.per_partition
        return found


@dataclass(frozen=True, slots=True)
class Case:
    """One file, or one folder of connectors, of `files`.

    `beats` are the clusters on which heartbeats are written. `meant` are differences that are wanted, with the reason.
    An `endless` file has MirrorMaker 2 copy in a cycle until it is stopped, or fail on the way: only that both start is
    compared.
    """

    name: str
    what: str
    copies: tuple[Copies, ...] = ()
    beats: tuple[str, ...] = ()
    meant: tuple[Known, ...] = ()
    endless: bool = False
    policy: bool = False
    """Whether MirrorMaker 2 is given the class of a policy, as users put one on its class path."""

    @property
    def shape(self) -> Shape:
        return "connectors" if (FILES / self.name).is_dir() else "dedicated"

    @property
    def clusters(self) -> list[str]:
        """The clusters that take part."""
        named = [end for one in self.copies for end in (one.source, one.target)]
        return list(dict.fromkeys([*named, *self.beats]))

    def text(self) -> str:
        """The properties file, with names such as `<one>` in the place of addresses."""
        return (FILES / f"{self.name}.properties").read_bytes().decode("latin-1")

    def connectors(self) -> dict[str, str]:
        """The requests of a folder, by file name: bodies of a POST, or of a PUT of the connector called so."""
        return {path.stem: path.read_text(encoding="utf-8") for path in sorted((FILES / self.name).glob("*.json"))}

    def worker(self) -> str:
        """Further lines for the file of the worker."""
        path = FILES / self.name / "worker.properties"
        return path.read_text(encoding="latin-1") if path.is_file() else ""

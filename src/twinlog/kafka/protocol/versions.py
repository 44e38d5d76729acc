"""The versions of requests that twinlog needs, and since which release Kafka has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinlog.kafka.protocol.produce_request import PRODUCE_VERSION

FETCH_VERSION = 12
"""The first with leader epochs in its answers (KIP-595); 13 and newer name topics by id."""


@dataclass(frozen=True, slots=True)
class Need:
    """A request in a version that twinlog sends."""

    api_key: int
    name: str
    version: int
    since: str


NEEDED = (Need(0, "Produce", PRODUCE_VERSION, "2.8"), Need(1, "Fetch", FETCH_VERSION, "2.7"))


def incompatible(api_versions: Mapping[int, tuple[int, int]]) -> str | None:
    """Why twinlog cannot work with a broker, by its (lowest, highest) version of each request; None if it can.

    >>> incompatible({0: (0, 8), 1: (0, 12)})  # doctest: +ELLIPSIS
    'the brokers are too old: they know Produce up to version 8, twinlog needs 9, which Kafka has since 2.8...'
    """
    for need in NEEDED:
        lowest, highest = api_versions.get(need.api_key, (0, -1))
        if highest < need.version:
            return (
                f"the brokers are too old: they know {need.name} up to version {highest}, twinlog needs "
                f"{need.version}, which Kafka has since {need.since}, and brokers that are not Apache Kafka only in "
                "some releases"
            )
        if lowest > need.version:
            return (
                f"the brokers are too new: they know {need.name} from version {lowest} on, twinlog sends {need.version}"
            )
    return None

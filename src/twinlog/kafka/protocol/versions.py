"""The versions of requests that twinlog needs, and the first release of Kafka that has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinlog.kafka.protocol.fetch_request import RawFetch
from twinlog.kafka.protocol.produce_request import RawProduce


@dataclass(frozen=True, slots=True)
class RequestVersions:
    """A request, the versions of it that twinlog sends, and the release of Kafka that has the oldest version."""

    api_key: int
    name: str
    oldest: int
    newest: int
    since: str


NEEDED = (
    RequestVersions(RawProduce.API_KEY, "Produce", RawProduce.OLDEST, RawProduce.API_VERSION, "2.1"),
    RequestVersions(RawFetch.API_KEY, "Fetch", RawFetch.OLDEST, RawFetch.NEWEST, "2.1"),
)


def incompatible(api_versions: Mapping[int, tuple[int, int]]) -> str | None:
    """The reason why a broker is unfit, by its (lowest, highest) version of each request; None if the broker is fit.

    >>> incompatible({0: (0, 6), 1: (0, 12)})  # doctest: +ELLIPSIS
    'the brokers are too old: they know Produce up to version 6, twinlog needs 7, which Kafka has since 2.1...'
    """
    for need in NEEDED:
        lowest, highest = api_versions.get(need.api_key, (0, -1))
        if highest < need.oldest:
            return (
                f"the brokers are too old: they know {need.name} up to version {highest}, twinlog needs "
                f"{need.oldest}, which Kafka has since {need.since}, and brokers that are not Apache Kafka only in "
                "some releases"
            )
        if lowest > need.newest:
            return (
                f"the brokers are too new: they know {need.name} from version {lowest} on, twinlog sends {need.newest}"
            )
    return None

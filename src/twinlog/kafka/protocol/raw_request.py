"""Requests that are sent a thousand times a second, with their own code in place of kafka-python's general encoder."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from kafka.errors import IncompatibleBrokerVersion

from twinlog.kafka.protocol.layout import FLEXIBLE, PLAIN, Layout

_PREFIX = struct.Struct(">ihhih")

Part = bytes | bytearray | memoryview


class ExpectedResponse(NamedTuple):
    """A response that is under way: the layout of its header, and the reader of its body: `read(frame, its begin)`."""

    correlation_id: int
    layout: Layout
    read: Callable[[memoryview, int], Any]


class RawRequest:
    """A request in any of several versions, as kafka-python's connections take it.

    `API_VERSION` is the newest version that may be sent, and after `negotiate_version` the version that is sent.
    """

    API_KEY: ClassVar[int]
    OLDEST: ClassVar[int]
    FLEXIBLE_SINCE: ClassVar[int]
    """The first version with a flexible layout (KIP-482)."""

    API_VERSION: int

    @property
    def layout(self) -> Layout:
        """The form of counts and strings in this version."""
        return FLEXIBLE if self.API_VERSION >= self.FLEXIBLE_SINCE else PLAIN

    def negotiate_version(self, api_versions: Mapping[int, tuple[int, int]]) -> None:
        """Take the newest version that a broker has too, by its (lowest, highest) version of each request.

        Brokers of a cluster differ while it is upgraded. Raises IncompatibleBrokerVersion.
        """
        lowest, highest = api_versions.get(self.API_KEY, (0, -1))
        version = min(self.API_VERSION, highest)
        if version < max(lowest, self.OLDEST):
            name = type(self).__name__.removeprefix("Raw")
            raise IncompatibleBrokerVersion(
                f"twinlog sends versions {self.OLDEST} to {self.API_VERSION} of '{name}', "
                f"the broker knows {lowest} to {highest}"
            )
        self.API_VERSION = version

    def expect_response(self) -> bool:
        return True

    def body(self) -> list[Part]:
        """All parts after the header; the parts are joined once."""
        raise NotImplementedError

    def read(self, frame: memoryview, at: int) -> Any:
        """The response whose body begins at byte `at` of a frame."""
        raise NotImplementedError

    def frame(self, correlation_id: int, client_id: str) -> bytes:
        """The framed request, with its header and length, as a single bytes object."""
        client, tags = client_id.encode(), self.layout.tags()
        body = self.body()
        size = _PREFIX.size - 4 + len(client) + len(tags) + sum(map(len, body))
        prefix = _PREFIX.pack(size, self.API_KEY, self.API_VERSION, correlation_id, len(client))
        return b"".join((prefix, client, tags, *body))

"""The live parts of pages, each rendered and compressed once for all browsers that show the same page.

A browser asks for the live part of its page with each reading. A page that is the same for every session, and changes
only with its readings, says so by `ConsolePage.shared`.
"""

from __future__ import annotations

import gzip
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from starlette.responses import Response

from twinlog.errors import RequestError
from twinlog.ui.live.flows import LiveFlows
from twinlog.ui.live.poller import LivePoller
from twinlog.ui.rendering import ConsolePage

MOST_PARTS = 64
"""The most pages, by URL, whose live parts are kept."""

PACKED_FROM = 1024
"""The least bytes of an answer that are compressed."""

LEVEL = 6
"""The level of compression. Level 9 saves a hundredth of the bytes of a page, and takes longer."""


Versions = tuple[tuple[LivePoller[Any], int], ...]
"""The readings of a page, each with its version; changed settings of a flow bring other pollers."""


@dataclass(frozen=True)
class LivePart:
    """The live part of a page by the readings `versions`, before and after its making."""

    versions: Versions
    plain: bytes
    vary: str

    @cached_property
    def packed(self) -> bytes:
        """The part compressed, once."""
        return gzip.compress(self.plain, LEVEL, mtime=0)

    def answer(self, *, packs: bool) -> Response:
        """The answer to a browser that takes gzip, or not."""
        if not packs or len(self.plain) < PACKED_FROM:
            return Response(self.plain, headers={"Vary": self.vary}, media_type="text/html")
        headers = {"Vary": f"{self.vary}, Accept-Encoding", "Content-Encoding": "gzip"}
        return Response(self.packed, headers=headers, media_type="text/html")


class LiveParts:
    """The newest live parts of pages by URL. Used by the event loop only."""

    def __init__(self, live: LiveFlows) -> None:
        self._live = live
        self._followed: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        """The readings that each page followed at its last request."""
        self._parts: dict[str, LivePart] = {}

    def versions(self, url: str) -> Versions | None:
        """The readings of a page, which are touched. None if the page is unknown, or if a reading is missing or stale:
        the page of a stale reading changes with the time, too."""
        try:
            pollers = [self._live.poller(name) for name in self._followed.get(url, ())]
        except RequestError:
            return None
        for poller in pollers:
            poller.touch()
        if not pollers or any(poller.is_stale for poller in pollers):
            return None
        return tuple((poller, poller.reading.version) for poller in pollers)

    def find(self, url: str, versions: Versions | None) -> LivePart | None:
        """The part of a page by these readings, None if it is still to be rendered."""
        part = self._parts.get(url)
        return part if part is not None and part.versions == versions else None

    def keep(self, url: str, page: ConsolePage, versions: Versions | None, answer: Response) -> None:
        """Keep the part that was rendered for an answer, if its readings are still those of `versions`."""
        if not page.shared:
            return
        self._followed[url] = page.live
        self._followed.move_to_end(url)
        if versions is not None and self.versions(url) == versions:
            self._parts[url] = LivePart(versions, bytes(answer.body), answer.headers["Vary"])
        while len(self._followed) > MOST_PARTS:
            gone, _ = self._followed.popitem(last=False)
            self._parts.pop(gone, None)

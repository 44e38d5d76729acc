"""The pages of metrics, as the server requests them."""

from __future__ import annotations

from typing import Protocol


class MetricPages(Protocol):
    """Builds the pages of metrics; both methods may be called by any thread."""

    def text(self, accept: str) -> tuple[str, bytes]:
        """The content type, and the page for a client that accepts the types of `accept`."""

    def json(self) -> bytes:
        """The page by the names of MBeans."""

"""What makes the pages of metrics, as the server asks for them."""

from __future__ import annotations

from typing import Protocol


class MetricPages(Protocol):
    """Both methods may be called by any thread."""

    def text(self, accept: str) -> tuple[str, bytes]:
        """The type of the content, and the page for a client that accepts these."""

    def json(self) -> bytes:
        """The page by the names of MBeans."""

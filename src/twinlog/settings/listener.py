"""An address that something is served at over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scheme = Literal["http", "https"]


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen at; an empty `host` means every address, port 0 any that is free."""

    scheme: Scheme
    host: str
    port: int

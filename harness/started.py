"""What runs during a `with` block: started at its begin, closed at its end, or at once where it cannot start."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Started(ABC):
    """Base of what is used as a context manager so."""

    @abstractmethod
    def start(self) -> object:
        """Start it, and return once it can be used."""

    @abstractmethod
    def close(self) -> None:
        """End whatever part of it runs; also after a start that failed halfway."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

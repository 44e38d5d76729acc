"""The refusal of a value that a user wrote or named, with the value found and the expected form."""

from __future__ import annotations


class ValueRefusedError(ValueError):
    """`found` and `expected` are the words for the message; they never show a secret."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}; expected {expected}")
        self.found = found
        self.expected = expected

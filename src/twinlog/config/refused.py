"""What is wrong with something that a user wrote or named: what was found there, and what was expected."""

from __future__ import annotations


class ValueRefusedError(ValueError):
    """`found` and `expected` are the words for the message; a secret never appears in them."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}; expected {expected}")
        self.found = found
        self.expected = expected

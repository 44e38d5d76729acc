"""Which errors are told without the name of their class."""

from __future__ import annotations

import pytest

from twinlog.errors import is_ours


@pytest.mark.parametrize("kind", ["RefusedError", "GapError", "TwinlogError"])
def test_our_own_errors_are_sentences(kind: str) -> None:
    assert is_ours(kind)


@pytest.mark.parametrize("kind", ["KeyError", "Sequence", "ClassVar", "is_ours", ""])
def test_of_any_other_the_name_says_the_most(kind: str) -> None:
    assert not is_ours(kind)

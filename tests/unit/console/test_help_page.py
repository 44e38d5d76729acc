"""The parts of a docstring, and the exit code of each kind of error."""

from __future__ import annotations

import pytest

from twinlog import errors
from twinlog.console.exit_codes import FOUND, MEANINGS, UNREACHABLE, WRONG, code_of
from twinlog.console.help_page import Docstring
from twinlog.console.options import topic_expressions
from twinlog.console.signals import INTERRUPTED


def test_a_docstring_has_its_parts() -> None:
    text = """Copy records.

    More of
    it.

    Exit codes: 0 done; 1 failed, or 3 of 4 parts; also later; 2; 4.

    Example: twinlog copy 'a; b'
    """
    assert Docstring.of(text) == Docstring(
        "Copy records.",
        ("More of it.",),
        ((0, "done"), (1, "failed, or 3 of 4 parts; also later"), (2, MEANINGS[2]), (4, MEANINGS[INTERRUPTED])),
        ("twinlog copy 'a; b'",),
    )


def test_an_unknown_exit_code_is_refused() -> None:
    with pytest.raises(ValueError, match="5"):
        Docstring.of("Copy.\n\nExit codes: 0; 5 other.")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError([]), WRONG),
        (errors.OptionError("x"), WRONG),
        (errors.ClusterError("x"), UNREACHABLE),
        (errors.RefusedError("x"), UNREACHABLE),
        (errors.EngineError("x"), UNREACHABLE),
        (errors.RequestError(401, "x"), UNREACHABLE),
        (errors.RequestError(503, "x"), UNREACHABLE),
        (errors.RequestError(404, "x"), FOUND),
        (errors.TopicGoneError("x"), FOUND),
        (errors.GroupGoneError("x"), FOUND),
        (errors.TwinlogError("x"), FOUND),
    ],
)
def test_each_error_has_its_code(error: errors.TwinlogError, code: int) -> None:
    assert code_of(error) == code


def test_topics_are_repeated_or_separated_by_commas() -> None:
    assert topic_expressions(["orders", "pay.*, a{1,2}b,c"]) == ("orders", "pay.*", "a{1,2}b", "c")
    assert topic_expressions(None) == topic_expressions([" , "]) == ()

"""VERSION is raised with each change of what crosses between driver and tasks."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, NewType

import pytest

from tests.unit.lease import contract
from tests.unit.lease.contract import FILE, WAY_OUT
from twinlog.lease.messages import VERSION

Number = NewType("Number", int)


class Inner(NamedTuple):
    word: str


@dataclass(frozen=True, slots=True)
class Outer:
    number: Number
    many: tuple[Inner, ...]
    one: Inner | None
    of: Literal["b", "a"]


def test_what_crosses_is_what_this_version_names() -> None:
    written, now = FILE.read_text(encoding="utf-8"), contract.contract()
    changes = difflib.unified_diff(written.splitlines(), now.splitlines(), FILE.name, "the code", lineterm="", n=2)
    assert written == now, "\n".join((WAY_OUT, *changes))


def test_a_class_has_its_fields_with_their_types_and_those_of_what_it_holds() -> None:
    assert contract.contract((Outer,), ()).splitlines()[2:] == [
        "Inner",
        "    word: str",
        "Outer",
        "    number: int",
        "    many: tuple[Inner, ...]",
        "    one: Inner | None",
        "    of: 'a' | 'b'",
    ]
    assert f"{__name__}.Inner\n    word: str\n{__name__}.Outer" in contract.contract((), (Outer,))


def test_what_nobody_looks_into_is_refused() -> None:
    @dataclass
    class Odd:
        where: Path

    with pytest.raises(AssertionError, match="Path"):
        contract.contract((Odd,), ())


def test_settings_and_values_within_messages_are_in_it() -> None:
    lines = contract.contract().splitlines()
    for name in ("ClientSettings", "TlsSettings", "TokenSettings", "FlowSettings"):
        assert any(line.startswith("twinlog.settings.") and line.endswith(f".{name}") for line in lines)
    assert {"Grant", "Position", "LastPoint", "PartitionProgress", "ClusterReachability", "Share"} <= set(lines)


def test_it_is_renewed_only_with_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "contract.txt"
    monkeypatch.setattr(contract, "FILE", file)
    earlier = f"version {VERSION}\nBeat\n    at: int\n"
    file.write_text(earlier)
    with pytest.raises(SystemExit, match=f"VERSION is still {VERSION}"):
        contract.main()
    assert file.read_text() == earlier
    file.write_text(earlier.replace(f"version {VERSION}", f"version {VERSION - 1}"))
    contract.main()
    assert file.read_text() == contract.contract()
    contract.main()

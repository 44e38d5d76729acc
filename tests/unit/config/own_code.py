"""Files of one flow that name Python code of the user's, and modules with such code."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twinlog.config import MirrorConfig, load

BASE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"

Writer = Callable[[str], str]
_numbers = itertools.count()


def modules(name: str) -> Any:
    """A fixture that writes modules that can be imported, each by a name that begins so, which it returns."""

    @pytest.fixture
    def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Writer:
        monkeypatch.syspath_prepend(tmp_path)

        def write(code: str) -> str:
            own = f"{name}_{next(_numbers)}"
            (tmp_path / f"{own}.py").write_text(textwrap.dedent(code), "utf-8")
            return own

        return write

    return module


def read(folder: Path, text: str) -> MirrorConfig:
    """What the file of the flow comes to that has this text, too."""
    file = folder / "mm2.properties"
    file.write_text(BASE + text, "utf-8")
    return load(file)

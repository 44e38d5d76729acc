"""What several tests of workers begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.connect.following import Following


@pytest.fixture
def following(tmp_path: Path) -> Following:
    found = Following(tmp_path)
    assert found.look() == ["put None"]
    return found

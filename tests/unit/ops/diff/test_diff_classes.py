"""`twinlog diff` where a class of the user's fails on what was read: its line, and no stack trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.config.own_code import BASE, Writer, modules
from tests.unit.ops.diff.test_differences import cluster, own
from twinlog.cli.main import app
from twinlog.model.types import TopicName
from twinlog.ops.inventory import Inventory

module = modules("own_filters")


def test_a_class_that_fails_is_named_with_its_method(
    tmp_path: Path, module: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
        class Filter:
            def accepts(self, setting): return setting != "flush.ms" or {}[setting]
    """
    name = module(code)
    file = tmp_path / "mm2.properties"
    file.write_text(f"{BASE}config.property.filter.class = {name}:Filter\n")

    def read(*_: object) -> tuple[Inventory, Inventory]:
        here = replace(cluster("a", t=1), configs={TopicName("t"): own("flush.ms", "3")})
        return here, cluster("b", a_t=1)

    monkeypatch.setattr("twinlog.ops.diff.command._read", read)
    monkeypatch.setattr("twinlog.ops.diff.command.log_checks", lambda: None)
    done = CliRunner().invoke(app, ["diff", str(file), "a", "b"])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert f"accepts('flush.ms') of {name}:Filter raises KeyError: 'flush.ms'; expected an answer" in done.stderr

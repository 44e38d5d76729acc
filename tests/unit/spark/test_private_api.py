"""What pyspark and py4j call private is used in one module, so that a new version of them is looked at in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import twinlog

HOME = Path(twinlog.__file__).parent
ALLOWED = HOME / "spark" / "jvm" / "internals.py"
OWN = {"self", "cls", "type", "other", "copier", "os", "_signal"}
"""What has private names of ours, or is no part of Spark."""
USES = sorted(
    [*(HOME / "spark").rglob("*.py"), *(HOME / "dataframes").glob("*.py"), *(HOME / "ops").rglob("source.py")]
)


def private_names(text: str) -> list[str]:
    """What is used of others by a name with one underscore before it, in attributes and imports."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            begin = node.value
            if not (isinstance(begin, ast.Name) and begin.id in OWN):
                found.append(ast.unparse(node))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("pyspark", "py4j"):
            found += [f"{node.module}.{one.name}" for one in node.names if _is_private(one.name)]
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("session.sparkContext._jsc.sc()", ["session.sparkContext._jsc"]),
        ("SparkContext._gateway", ["SparkContext._gateway"]),
        ("from pyspark.find_spark_home import _find_spark_home", ["pyspark.find_spark_home._find_spark_home"]),
        ("self._mine.__class__", []),
    ],
)
def test_a_private_name_is_found(text: str, names: list[str]) -> None:
    assert private_names(text) == names


@pytest.mark.parametrize("path", USES, ids=str)
def test_only_one_module_uses_any(path: Path) -> None:
    names = private_names(path.read_text())
    assert bool(names) is (path == ALLOWED), names

"""Checks the sizes of files of src/twinlog, its small modules and its names, and the folders of the whole project.

`LIMITS` has the numbers. A count above its limit is a problem. A folder counts all its entries: files of any kind, and
folders. Limits of ratchets are the present counts, and a change may only lower them.
`python -m scripts.check_structure --list` prints the modules, classes and methods of the ratchets;
`--table` prints the figures of the package in Markdown. The check ends with status 1 if there is a problem.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent

LIMITS = {
    "lines of a file": 600,
    "entries of a folder": 25,
    "small modules": 3,
    "class names": 0,
    "method names": 0,
}
LARGE_FOLDERS = {
    "docs": 40,
    "src/twinlog": 27,
    "tests/recorded": 28,
    "tests/unit": 30,
}
"""Ratchets: the present entries of folders above the limit."""

LISTS = {"bench/results", "conformance/corpus/files", "docs/decisions", "tests/unit/config/cases"}
"""Folders with a file for each result, case or decision, beside the golden answers of each release."""

GOLDEN = "conformance/golden"
FOLDERS = (
    "bench",
    "conformance",
    "demo",
    "deploy",
    "docs",
    "examples",
    "faults",
    "harness",
    "scripts",
    "soak",
    "src",
    "tests",
)
LEFT = {"__pycache__", "metastore_db", "spark-warehouse", "work"}
"""Folders of .gitignore that may be in a folder of the project."""

SMALL_LINES = 80
VAGUE_METHODS = {"take", "attend", "look", "go_on", "become", "have"}


@dataclass(frozen=True, slots=True)
class Module:
    """A module: its path from the root, its length, its classes, its vague methods and the modules that it names."""

    path: Path
    lines: int
    classes: tuple[str, ...]
    methods: tuple[str, ...]
    named: frozenset[str]


class Structure:
    """The modules below src/twinlog with their imports of each other, and the entries of all folders."""

    def __init__(self, root: Path) -> None:
        source = root / "src"
        self.modules = {
            _name(path.relative_to(source)): _module(path, path.relative_to(source), root)
            for path in sorted((source / "twinlog").rglob("*.py"))
        }
        self.folders = {name: count for top in FOLDERS for name, count in _folders(root / top, root)}
        self.glossary = root / "docs" / "design" / "glossary.md"

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """The modules of the package that each module imports, at the top or in a function."""
        return {
            name: {imported for text in module.named if (imported := self._imported(text))}
            for name, module in self.modules.items()
        }

    def _imported(self, name: str) -> str:
        """The module that `name` is, or the module that has the name: `a.b.C` is in `a.b`."""
        while name and name not in self.modules:
            name = name.rpartition(".")[0]
        return name

    @cached_property
    def small(self) -> dict[Path, Path]:
        """Small modules with a single importer, which is in the same folder: the path of each importer."""
        importers: dict[str, list[str]] = defaultdict(list)
        for importer, imported in self.imports.items():
            for name in imported:
                importers[name].append(importer)
        found = {}
        for name, module in self.modules.items():
            if module.lines < SMALL_LINES and not module.path.stem.startswith("__") and len(importers[name]) == 1:
                path = self.modules[importers[name][0]].path
                if path.parent == module.path.parent:
                    found[module.path] = path
        return found

    @cached_property
    def classes(self) -> dict[str, list[Path]]:
        """The files of each class name."""
        files: dict[str, list[Path]] = defaultdict(list)
        for module in self.modules.values():
            for name in module.classes:
                files[name].append(module.path)
        return files

    @cached_property
    def duplicates(self) -> dict[str, list[Path]]:
        """The files of each name that several classes have."""
        return {name: files for name, files in sorted(self.classes.items()) if len(files) > 1}

    @cached_property
    def methods(self) -> list[str]:
        """The methods with a vague name, each with its file."""
        return [f"{module.path}: {method}" for module in self.modules.values() for method in module.methods]

    def chain(self) -> list[str]:
        """The longest chain of modules, each of which imports the next; an import back into a chain ends it."""
        longest: dict[str, list[str]] = {}

        def chain_from(name: str) -> list[str]:
            if name not in longest:
                longest[name] = []
                longest[name] = [
                    name,
                    *max((chain_from(imported) for imported in sorted(self.imports[name])), key=len, default=[]),
                ]
            return longest[name]

        return max((chain_from(name) for name in self.modules), key=len, default=[])


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _folders(folder: Path, root: Path) -> Iterator[tuple[str, int]]:
    """The number of entries of a folder and of each folder below it, without what programs leave there."""
    if not folder.is_dir():
        return
    entries = [path for path in folder.iterdir() if not _is_left_by_a_program(path)]
    yield folder.relative_to(root).as_posix(), len(entries)
    for path in entries:
        yield from _folders(path, root)


def _is_left_by_a_program(path: Path) -> bool:
    """Whether a program made an entry: git ignores its name, or the entry is a folder of such entries alone.

    A folder of the second kind stays where a change has moved all modules of the folder.
    """
    if path.name.startswith(".") or path.name in LEFT or path.suffix == ".egg-info":
        return True
    return path.is_dir() and any(path.iterdir()) and all(map(_is_left_by_a_program, path.iterdir()))


def _module(path: Path, inside: Path, root: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    classes: list[str] = []
    methods: list[str] = []
    named: set[str] = set()
    for node in _statements(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            classes.append(node.name)
            methods.extend(
                f"{node.name}.{method.name}"
                for method in node.body
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name in VAGUE_METHODS
            )
        elif isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = inside.parent.parts[: len(inside.parent.parts) + 1 - node.level] if node.level else ()
            origin = ".".join([*package, *([node.module] if node.module else [])])
            named.update(f"{origin}.{alias.name}" for alias in node.names)
    return Module(path.relative_to(root), text.count("\n"), tuple(classes), tuple(methods), frozenset(named))


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Each statement of a module at any depth; expressions have no statements and are passed over."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("finalbody", "orelse", "cases", "handlers", "body"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                waiting.extend(reversed(block))


def problems(structure: Structure, limits: dict[str, int]) -> Iterator[str]:
    """A paragraph for each count above its limit."""
    most = limits["lines of a file"]
    for module in structure.modules.values():
        if module.lines > most:
            yield f"{module.path} has {module.lines} lines, and the limit is {most}: divide the file by its concepts"
    for folder, entries in sorted(structure.folders.items()):
        most = LARGE_FOLDERS.get(folder, limits["entries of a folder"])
        if entries > most and not _is_list(folder):
            yield f"{folder} has {entries} entries, and the limit is {most}: give a concept a folder of its own"
    for name, (lines, way_out) in ratchets(structure).items():
        if len(lines) > limits[name]:
            listed = "\n".join(f"  {line}" for line in lines)
            yield f"{name}: {len(lines)}, and the limit is {limits[name]}:\n{listed}\n  Way out: {way_out}."


def _is_list(folder: str) -> bool:
    return folder in LISTS or folder.startswith(f"{GOLDEN}/")


def ratchets(structure: Structure) -> dict[str, tuple[list[str], str]]:
    """The lines of each ratchet, and the way to fewer lines."""
    return {
        "small modules": (
            [f"{path}: only {importer.name} imports it" for path, importer in structure.small.items()],
            f"merge a module of less than {SMALL_LINES} lines into its only importer",
        ),
        "class names": (
            [f"{name}: {', '.join(map(str, files))}" for name, files in structure.duplicates.items()],
            "rename a class after its own task",
        ),
        "method names": (structure.methods, "name a method after its effect on its object"),
    }


def table(structure: Structure) -> str:
    """The figures of the package in Markdown."""
    lines = [module.lines for module in structure.modules.values()]
    glossary = structure.glossary.read_text(encoding="utf-8") if structure.glossary.is_file() else ""
    limit = LIMITS["entries of a folder"]
    rows = {
        "files": len(lines),
        "lines": sum(lines),
        "median lines of a file": round(median(lines or [0])),
        f"folders with more than {limit} entries": sum(
            entries > limit and not _is_list(folder) for folder, entries in structure.folders.items()
        ),
        "small modules with a single importer": len(structure.small),
        "unique class names": f"{len(structure.classes)} of {sum(map(len, structure.classes.values()))}",
        "modules of the longest import chain": len(structure.chain()),
        "rows of the glossary": len(re.findall(r"^\| \*\*", glossary, re.MULTILINE)),
    }
    return "\n".join(["| figure | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def main(arguments: list[str], root: Path = ROOT, limits: dict[str, int] = LIMITS) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.check_structure", description="Checks sizes and names.")
    parser.add_argument("--list", action="store_true", help="print the modules, classes and methods of the ratchets")
    parser.add_argument("--table", action="store_true", help="print the figures of the package in Markdown")
    asked = parser.parse_args(arguments)
    structure = Structure(root)
    if asked.table:
        print(table(structure))
        return 0
    counted = ratchets(structure)
    if asked.list:
        print("\n".join(f"{name}: {line}" for name, (lines, _) in counted.items() for line in lines))
        return 0
    wrong = list(problems(structure, limits))
    print("\n".join(wrong) or "Files, folders, small modules and names keep their limits.")
    for name, (lines, _) in counted.items():
        if len(lines) < limits[name]:
            print(f"{name}: {len(lines)} now; lower the limit of {limits[name]} in scripts/check_structure.py")
    for folder, most in LARGE_FOLDERS.items():
        entries = structure.folders.get(folder, most)
        if entries < most:
            print(f"{folder}: {entries} entries now; lower its limit of {most} in scripts/check_structure.py")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

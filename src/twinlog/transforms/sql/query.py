"""`SELECT ...

FROM records WHERE ...` as steps that each record takes by itself, or the reason to refuse a query.

Spark parses, analyses and optimises the query. Spark's plan is then a chain of `Project` and `Filter`. Spark has a
`Project` of its own for an expression that other expressions share (Spark rule RewriteWithExpression), and for a named
column that is used twice. Each node becomes a step, in Spark's order. So Spark's plan decides which expressions are
evaluated once, and which expressions a left-out record skips.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from twinlog.errors import TransformError
from twinlog.transforms.sql.catalyst import COLUMNS, TABLE, Catalyst, items_of, module
from twinlog.transforms.sql.gateway import reason
from twinlog.transforms.sql.jvm import SqlJvm

_FIXED = ("offset", "timestampType")
_TAKEN = {
    "key": {"binary", "string", "void"},
    "value": {"binary", "string", "void"},
    "topic": {"string"},
    "partition": {"tinyint", "smallint", "int", "bigint", "void"},
    "timestamp": {"timestamp"},
    "headers": {COLUMNS["headers"], "void"},
}
_PARSED = {"Project", "Filter", "UnresolvedRelation", "SubqueryAlias"}
_ANALYSED = {"Project", "Filter", "SubqueryAlias", "LocalRelation"}
_OPTIMISED = {"Project", "Filter"}
_LEAVES = {
    *("Literal", "AttributeReference", "NamedLambdaVariable", "Pi", "EulerNumber", "ResolvedCollation"),
    # The definition of the common expression is a child of `With`, so the definition is checked, too.
    "CommonExpressionRef",
    # The time zone is UTC, see `catalyst`.
    "CurrentTimeZone",
    # Functions that take any number of arguments, here zero.
    *("CreateArray", "CreateMap", "CreateNamedStruct", "Concat", "MapConcat", "ArraysZip"),
}
_NOW = {"CurrentTime"}
"""Expressions that contain the time of the query's compilation, although their precision is below them."""
_NAMES = {name.lower(): name for name in COLUMNS}
"""SQL ignores capitals."""

ANALYSE_S = 120.0
MOST_KNOWN = 256
_known: dict[str, str | None] = {}
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class QueryStep:
    """A step that takes a row of the columns `inputs`.

    A step that `filters` has a single expression, the condition that a row must meet. Any other step makes a row of its
    expressions.
    """

    expressions: list[Any]
    inputs: list[Any]
    filters: bool


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """The steps of a query; the first of the `steps` takes rows that have the columns `needs`.

    The last step makes a column of the type `made`: a struct of the columns `computed`, or a flag if `computed` is
    empty. All other columns of a record stay.
    """

    steps: tuple[QueryStep, ...]
    made: Any
    needs: tuple[str, ...]
    computed: tuple[str, ...]


def analyse(jvm: SqlJvm, text: str) -> SqlQuery:
    """Analyse a query.

    Raises TransformError with Spark's reason, or with the part that needs more than a single record.
    """
    try:
        # Each of Spark's own sessions has an analyser to itself.
        with jvm.analysing:
            return _analyse(jvm.catalyst, text)
    except Py4JJavaError as error:
        if not jvm.refused(error):
            raise
        raise TransformError(reason(error)) from None


def compiled(catalyst: Catalyst, query: SqlQuery) -> list[Any]:
    """A predicate or a projection for each step; Spark makes Java of the step, and compiles the Java."""
    expressions = catalyst.java.org.apache.spark.sql.catalyst.expressions
    predicate = module(catalyst.java, "org.apache.spark.sql.catalyst.expressions.Predicate")
    found = []
    for step in query.steps:
        inputs = catalyst.sequence(step.inputs)
        if step.filters:
            found.append(predicate.create(step.expressions[0], inputs))
        else:
            found.append(expressions.MutableProjection.create(catalyst.sequence(step.expressions), inputs))
    return found


def _analyse(catalyst: Catalyst, text: str) -> SqlQuery:
    parsed = catalyst.parse(text)
    for node in _nodes(parsed):
        _refuse_other(node, _PARSED)
        if _kind(node) == "UnresolvedRelation" and node.tableName().lower() != TABLE:
            raise TransformError(f"it reads {node.tableName()}; the only table is {TABLE}")
    if not parsed.subqueriesAll().isEmpty():
        raise TransformError("it has a query of its own within, and each record is changed by itself")
    analysed = catalyst.analyse(parsed)
    for node in _nodes(analysed):
        _refuse_other(node, _ANALYSED)
        for expression in items_of(node.expressions()):
            _refuse_what_changes(expression)
    return _compile(catalyst, catalyst.optimise(analysed))


def _compile(catalyst: Catalyst, optimised: Any) -> SqlQuery:
    expressions = catalyst.java.org.apache.spark.sql.catalyst.expressions
    types = catalyst.java.org.apache.spark.sql.types
    *chain, relation = _nodes(optimised)
    # A condition that is always false leaves an empty table.
    if _kind(relation) != "LocalRelation" or relation.data().isEmpty():
        raise TransformError("its condition is false for every record")
    for node in chain:
        _refuse_other(node, _OPTIMISED)
    attributes = {attribute.name(): attribute for attribute in items_of(relation.output())}
    columns = optimised.output()
    if _kind(optimised) == "Project":
        columns = optimised.projectList()
        del chain[0]
    computed = _computed(columns, attributes)
    made = expressions.Literal(True, types.DataTypes.BooleanType)
    if computed:
        made = expressions.CreateStruct.apply(catalyst.sequence(list(computed.values())))
    work, read = _wanted(chain, made)
    needs = tuple(name for name in attributes if _id(attributes[name]) in read) or ("offset",)
    inputs = [attributes[name] for name in needs]
    steps = []
    for found, filters in work:
        steps.append(QueryStep(found, inputs, filters))
        if not filters:
            inputs = [column.toAttribute() for column in found]
    steps.append(QueryStep([made], inputs, False))
    out = types.StructType().add("made", made.dataType(), True)
    return SqlQuery(tuple(steps), out, needs, tuple(computed))


def _computed(columns: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    """The selected columns that differ from the record's own, by their names."""
    computed: dict[str, Any] = {}
    seen: set[str] = set()
    for column in items_of(columns):
        name = _NAMES.get(column.name().lower(), column.name())
        kept = name in attributes and _id(column) == _id(attributes[name])
        _check_column(name, column.dataType().catalogString(), seen, kept=kept)
        if not kept:
            computed[name] = column
    return computed


def _wanted(chain: list[Any], made: Any) -> tuple[list[tuple[list[Any], bool]], set[int]]:
    """The expressions of each node and whether the node is a filter, from the table on, and the ids of read columns.

    `chain` begins at the other end. Columns that only pass through a node are left out of its step: the record has
    them.
    """
    work: list[tuple[list[Any], bool]] = []
    read = _references(made)
    for node in chain:
        if _kind(node) == "Filter":
            work.append(([node.condition()], True))
            read = read | _references(node.condition())
        else:
            columns = [column for column in items_of(node.projectList()) if _id(column) in read]
            work.append((columns, False))
            read = {one for column in columns for one in _references(column)}
    return work[::-1], read


def _check_column(name: str, kind: str, seen: set[str], *, kept: bool) -> None:
    if name not in COLUMNS:
        raise TransformError(f"it selects the column {name}; there are {', '.join(COLUMNS)}")
    if name in seen:
        raise TransformError(f"it selects two columns of the name {name}")
    seen.add(name)
    if kept:
        return
    if name in _FIXED:
        raise TransformError(f"it changes the column {name}, which is the source's")
    if kind not in _TAKEN[name]:
        raise TransformError(f"its column {name} is {kind}, and has to be {COLUMNS[name]}; write a CAST")


def _refuse_other(node: Any, taken: set[str]) -> None:
    kind = _kind(node).removeprefix("Unresolved")
    if kind == "Generate":
        raise TransformError(
            "it has Generate, and only a function can add records: transform = package.module:function"
        )
    if _kind(node) not in taken:
        raise TransformError(
            f"it has {kind}, and each record is changed by itself: SELECT ... FROM records WHERE ... is all there is"
        )


def _refuse_what_changes(expression: Any) -> None:
    """Refuse expressions that vary: after a crash the same records must give the same rows."""
    if not expression.deterministic():
        raise TransformError(f"{expression.sql()} has another result each time")
    children = list(items_of(expression.children()))
    kind = _kind(expression)
    if kind in _NOW or (not children and kind not in _LEAVES):
        raise TransformError(
            f"{expression.prettyName()} has another result for a record each time, or is a query of its own"
        )
    for child in children:
        _refuse_what_changes(child)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in items_of(plan.children()):
        yield from _nodes(child)


def _references(expression: Any) -> set[int]:
    return {_id(attribute) for attribute in items_of(expression.references().toSeq())}


def _id(column: Any) -> int:
    return int(column.exprId().id())


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def refusals(texts: Iterable[str], *, ask: bool = True) -> dict[str, str]:
    """The reasons to refuse queries, by the text of the query; usable queries are left out.

    The check takes some seconds, for a JVM, unless this process has checked all queries before. With `ask` False,
    unchecked queries are left out, too. Raises EngineError if the JVM fails to start here.
    """
    wanted = list(dict.fromkeys(texts))
    found = _remembered(wanted)
    if ask and len(found) < len(wanted):
        with _one_at_a_time:
            found = _remembered(wanted)
            new = [text for text in wanted if text not in found]
            if new:
                found |= _ask(new)
                _known.update(found)
                for text in list(_known)[: max(0, len(_known) - MOST_KNOWN)]:
                    del _known[text]
    return {text: why for text in wanted if (why := found.get(text)) is not None}


def _remembered(texts: list[str]) -> dict[str, str | None]:
    known = _known.copy()
    return {text: known[text] for text in texts if text in known}


def _ask(texts: list[str]) -> dict[str, str | None]:
    jvm = SqlJvm(brief=True)
    try:
        return {text: _refusal(jvm, text) for text in texts}
    finally:
        jvm.close()


def _refusal(jvm: SqlJvm, text: str) -> str | None:
    try:
        with jvm.within(ANALYSE_S):
            analyse(jvm, text)
    except TransformError as error:
        return error.message
    except (Py4JError, TypeError, OSError) as error:
        raise jvm.lost(error, ANALYSE_S) from None
    return None

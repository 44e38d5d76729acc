"""`SELECT ... FROM records WHERE ...` as one expression for each record, or why it is none.

Spark parses, analyses and optimises the query. What comes out is a list of columns over the condition that a record
must meet, and becomes `if(condition, struct(columns), null)`: as many rows as records, so that nothing has to mark
which is which, and no column of a record that is left out is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError

from twinlog.errors import TransformError
from twinlog.transforms.sql.catalyst import COLUMNS, TABLE, Catalyst, items_of
from twinlog.transforms.sql.jvm import SqlJvm, reason

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
_LEAVES = {"Literal", "CreateArray", "CreateMap", "AttributeReference", "NamedLambdaVariable", "Pi", "EulerNumber"}
_NOW = {"CurrentTime"}
"""Have the time in which the query is compiled, although their precision is below them."""
_NAMES = {name.lower(): name for name in COLUMNS}
"""SQL does not care about capitals."""


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """`expression` is of rows that have the columns `needs`, which it knows as `inputs`.

    It gives one column of the type `made`: a struct of the columns `computed`, or a flag where there are none, and null
    for a record that is left out. All other columns of a record stay.
    """

    expression: Any
    inputs: Any
    made: Any
    needs: tuple[str, ...]
    computed: tuple[str, ...]


def analyse(jvm: SqlJvm, text: str) -> SqlQuery:
    """Raises TransformError with Spark's reason, or with what the query has that cannot be done record by record."""
    try:
        # Spark's own sessions have each one to themselves.
        with jvm.analysing:
            return _analyse(jvm.catalyst, text)
    except Py4JJavaError as error:
        if not jvm.refused(error):
            raise
        raise TransformError(reason(error)) from None


def projection(catalyst: Catalyst, query: SqlQuery) -> Any:
    """What evaluates a query; Spark makes Java of it, and compiles that."""
    expressions = catalyst.java.org.apache.spark.sql.catalyst.expressions
    return expressions.MutableProjection.create(catalyst.sequence([query.expression]), query.inputs)


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


def _compile(catalyst: Catalyst, optimized: Any) -> SqlQuery:
    expressions = catalyst.java.org.apache.spark.sql.catalyst.expressions
    types = catalyst.java.org.apache.spark.sql.types
    found = catalyst.java.org.apache.spark.sql.catalyst.planning.PhysicalOperation.unapply(optimized)
    # A condition that is never true leaves no row of the table.
    if found.isEmpty() or _kind(found.get()._3()) != "LocalRelation" or found.get()._3().data().isEmpty():
        raise TransformError("no record can meet its condition")
    columns, filters, relation = found.get()._1(), found.get()._2(), found.get()._3()
    attributes = {attribute.name(): attribute for attribute in items_of(relation.output())}
    computed: dict[str, Any] = {}
    seen: set[str] = set()
    for column in items_of(columns):
        name = _NAMES.get(column.name().lower(), column.name())
        kept = name in attributes and column.exprId().equals(attributes[name].exprId())
        _check_column(name, column.dataType().catalogString(), seen, kept=kept)
        if not kept:
            computed[name] = column
    made = expressions.Literal(True, types.DataTypes.BooleanType)
    if computed:
        made = expressions.CreateStruct.apply(catalyst.sequence(list(computed.values())))
    conditions = list(items_of(filters))
    condition = conditions[0] if conditions else None
    for more in conditions[1:]:
        condition = expressions.And(condition, more)
    if condition is not None:
        made = expressions.If(condition, made, expressions.Literal(None, made.dataType()))
    references = made.references()
    needs = tuple(name for name in attributes if references.contains(attributes[name])) or ("offset",)
    inputs = catalyst.sequence([attributes[name] for name in needs])
    out = types.StructType().add("made", made.dataType(), True)
    return SqlQuery(made, inputs, out, needs, tuple(computed))


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
            "it has Generate, and a query adds no records; a function does: transform = package.module:function"
        )
    if _kind(node) not in taken:
        raise TransformError(
            f"it has {kind}, and each record is changed by itself: SELECT ... FROM records WHERE ... is all there is"
        )


def _refuse_what_changes(expression: Any) -> None:
    """After a crash the same records must give the same rows."""
    if not expression.deterministic():
        raise TransformError(f"{expression.sql()} does not give the same each time")
    children = list(items_of(expression.children()))
    kind = _kind(expression)
    if kind in _NOW or (not children and kind not in _LEAVES):
        raise TransformError(
            f"{expression.prettyName()} is not the same for a record each time, or is a query of its own"
        )
    for child in children:
        _refuse_what_changes(child)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in items_of(plan.children()):
        yield from _nodes(child)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())

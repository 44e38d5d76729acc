"""`SELECT ... FROM records WHERE ...` as one expression for each record, or why it is none.

Spark parses, analyses and optimises the query. What comes out is a list of columns over the condition that a record
must meet, and becomes `if(condition, struct(columns), null)`: as many rows as records, so that nothing has to say which
is which, and no column of a record that is left out is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError

from twinlog.errors import TransformError
from twinlog.transform.sql.jvm import SqlJvm, reason

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
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
_ANALYSED = {"Project", "Filter", "SubqueryAlias", "View", "LogicalRDD"}
_LEAVES = {"Literal", "CreateArray", "CreateMap", "AttributeReference", "NamedLambdaVariable", "Pi", "EulerNumber"}


@dataclass(frozen=True, slots=True)
class Query:
    """`projection` evaluates rows that have the columns `needs`, of the type `given`.

    Its one column is of the type `made`: a struct of the columns `computed`, or a flag where there are none, and null
    for a record that is left out. All other columns of a record stay.
    """

    projection: Any
    given: Any
    made: Any
    needs: tuple[str, ...]
    computed: tuple[str, ...]


def analyse(jvm: SqlJvm, text: str) -> Query:
    """Raises TransformError with what Spark says, or with what the query has that cannot be done record by record."""
    try:
        # All queries see their columns under one name.
        with jvm.analysing:
            return _analyse(jvm, text)
    except Py4JJavaError as error:
        if not jvm.refused(error):
            raise
        raise TransformError(reason(error)) from None


def _analyse(jvm: SqlJvm, text: str) -> Query:
    session, java = jvm.session, jvm.java
    # Commands are executed as soon as they are analysed, so only a plan that is a query gets there.
    parsed = session.sessionState().sqlParser().parsePlan(text)
    for node in _nodes(parsed):
        _refuse_other(node, _PARSED)
        if _kind(node) == "UnresolvedRelation" and node.tableName().lower() != "records":
            raise TransformError(f"it reads {node.tableName()}; the only table is records")
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    schema = java.org.apache.spark.sql.types.StructType.fromDDL(ddl)
    nothing = java.org.apache.spark.api.java.JavaSparkContext(session.sparkContext()).emptyRDD()
    session.createDataFrame(nothing, schema).createOrReplaceTempView("records")
    execution = session.sql(text).queryExecution()
    analysed = execution.analyzed()
    for node in _nodes(analysed):
        _refuse_other(node, _ANALYSED)
        for expression in _sequence(node.expressions()):
            _refuse_what_changes(expression)
    return _compile(jvm, execution.optimizedPlan())


def _compile(jvm: SqlJvm, optimized: Any) -> Query:
    expressions = jvm.java.org.apache.spark.sql.catalyst.expressions
    types = jvm.java.org.apache.spark.sql.types
    found = jvm.java.org.apache.spark.sql.catalyst.planning.PhysicalOperation.unapply(optimized)
    if found.isEmpty() or _kind(found.get()._3()) != "LogicalRDD":
        raise TransformError("no record can meet its condition")
    columns, filters, relation = found.get()._1(), found.get()._2(), found.get()._3()
    attributes = {attribute.name(): attribute for attribute in _sequence(relation.output())}
    computed = []
    seen: set[str] = set()
    for column in _sequence(columns):
        name = column.name()
        kept = name in attributes and column.exprId().equals(attributes[name].exprId())
        _check_column(name, column.dataType().catalogString(), seen, kept=kept)
        if not kept:
            computed.append(column)
    made = expressions.Literal(True, types.DataTypes.BooleanType)
    if computed:
        made = expressions.CreateStruct.apply(_scala(jvm, computed))
    conditions = list(_sequence(filters))
    condition = conditions[0] if conditions else None
    for more in conditions[1:]:
        condition = expressions.And(condition, more)
    if condition is not None:
        made = expressions.If(condition, made, expressions.Literal(None, made.dataType()))
    references = made.references()
    needs = tuple(name for name in attributes if references.contains(attributes[name])) or ("offset",)
    given = types.StructType.fromDDL(", ".join(f"`{name}` {COLUMNS[name]}" for name in needs))
    inputs = _scala(jvm, [attributes[name] for name in needs])
    projection = expressions.UnsafeProjection.create(_scala(jvm, [made]), inputs)
    out = types.StructType().add("made", made.dataType(), True)
    return Query(projection, given, out, needs, tuple(column.name() for column in computed))


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
    if _kind(node) not in taken:
        raise TransformError(
            f"it has {_kind(node).removeprefix('Unresolved')}, and each record is changed by itself: "
            "SELECT ... FROM records WHERE ... is all there is"
        )


def _refuse_what_changes(expression: Any) -> None:
    """After a crash the same records must give the same rows."""
    if not expression.deterministic():
        raise TransformError(f"{expression.sql()} does not give the same each time")
    children = list(_sequence(expression.children()))
    if not children and _kind(expression) not in _LEAVES:
        raise TransformError(
            f"{expression.prettyName()} is not the same for a record each time, or is a query of its own"
        )
    for child in children:
        _refuse_what_changes(child)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _sequence(plan.children()):
        yield from _nodes(child)


def _sequence(found: Any) -> Iterator[Any]:
    for at in range(found.size()):
        yield found.apply(at)


def _scala(jvm: SqlJvm, items: list[Any]) -> Any:
    return jvm.java.org.apache.spark.api.python.PythonUtils.toSeq(items)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())

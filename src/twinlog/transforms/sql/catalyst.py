"""Spark's parser, analyser and optimiser in a bare JVM: a SparkSession would take seconds to start.

The JVM is free of jobs, so it also lacks a scheduler, a block manager and a web server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
TABLE = "records"

_RULES = "org.apache.spark.sql.catalyst.optimizer"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # Otherwise Spark evaluates the right side of an AND also for records that the left side leaves out (Spark class
    # EquivalentExpressions); the `Filter` of a job stops at the left side.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    # `records` has a row during the analysis of the query; these rules would evaluate the query on the row.
    "spark.sql.optimizer.excludedRules": f"{_RULES}.ConvertToLocalRelation,{_RULES}.PropagateEmptyRelation",
}


class Catalyst:
    """Knows all of Spark's own functions, and a single table, `records`."""

    def __init__(self, java: Any) -> None:
        self.java = java
        self._none = module(java, "scala.None")
        sql = java.org.apache.spark.sql
        # A sessionless JVM otherwise has settings for each of its threads, and py4j takes any thread.
        conf = sql.internal.SQLConf()
        for key, value in _SETTINGS.items():
            conf.setConfString(key, value)
        module(java, "org.apache.spark.sql.internal.SQLConf").setSQLConfGetter(_giving(java, conf))
        registry = "org.apache.spark.sql.catalyst.analysis"
        catalog = sql.catalyst.catalog.SessionCatalog(
            sql.catalyst.catalog.InMemoryCatalog(java.org.apache.spark.SparkConf(False), None),
            module(java, f"{registry}.FunctionRegistry").builtin(),
            module(java, f"{registry}.TableFunctionRegistry").builtin(),
            conf,
        )
        self._parser = sql.execution.SparkSqlParser()
        # An unknown name is looked up in this catalog, too.
        session_catalog = sql.execution.datasources.v2.V2SessionCatalog(catalog)
        catalogs = sql.connector.catalog.DefaultCatalogManager(session_catalog, catalog)
        no_relations = module(java, f"{registry}.RelationCache").empty()
        self._analyser = sql.catalyst.analysis.Analyzer(catalogs, no_relations, self._none)
        self._optimiser = sql.execution.SparkOptimizer(catalogs, catalog, sql.ExperimentalMethods())
        attributes = module(java, "org.apache.spark.sql.catalyst.types.DataTypeUtils").toAttributes(
            self.struct(COLUMNS)
        )
        row = sql.catalyst.expressions.GenericInternalRow(len(COLUMNS))
        plans = sql.catalyst.plans.logical
        relation = plans.LocalRelation(attributes, self.sequence([row]), False, self._none)
        alias = module(java, "org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias")
        self._records = alias.apply(TABLE, relation)

    def parse(self, text: str) -> Any:
        """The plan as written, in which `records` is a name."""
        return self._parser.parsePlan(text)

    def analyse(self, parsed: Any) -> Any:
        """The plan with every name and type known. For tables other than `records` the plan is meaningless."""
        tracker = self.java.org.apache.spark.sql.catalyst.QueryPlanningTracker(self._none)
        return self._analyser.executeAndCheck(self._with_records(parsed), tracker)

    def optimise(self, analysed: Any) -> Any:
        """The plan as Spark would evaluate it."""
        return self._optimiser.execute(analysed)

    def struct(self, columns: dict[str, str]) -> Any:
        """The type of rows with these columns, by their types as SQL writes them."""
        ddl = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        return self.java.org.apache.spark.sql.types.StructType.fromDDL(ddl)

    def sequence(self, items: list[Any]) -> Any:
        """A Scala sequence."""
        return self.java.org.apache.spark.api.python.PythonUtils.toSeq(items)

    def _with_records(self, parsed: Any) -> Any:
        children = [self._with_records(child) for child in items_of(parsed.children())]
        return parsed.withNewChildren(self.sequence(children)) if children else self._records


def _giving(java: Any, value: Any) -> Any:
    """A Scala function that returns this value and takes zero arguments."""
    constant = java.java.lang.invoke.MethodHandles.constant(value.getClass(), value)
    function = java.java.lang.Class.forName("scala.Function0")
    return java.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(function, constant)


def module(java: Any, name: str) -> Any:
    """A Scala object, by the name of its class."""
    found = java
    for part in f"{name}$".split("."):
        found = getattr(found, part)
    return getattr(found, "MODULE$")


def items_of(found: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    for at in range(found.size()):
        yield found.apply(at)

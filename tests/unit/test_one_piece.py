"""A task of the client has a single piece of code: modules beside this piece use it, and repeat nothing of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "twinlog"

FETCHES = {
    "kafka/consumer/": "has the readers",
    "kafka/admin/partition_states.py": "asks a leader for an id, and reads no records",
    "copier/start/log_reader.py": "reads to the end of a log, with another error for each cause",
}
"""Where fetch requests are made, with the reason."""

APPENDS = {
    "kafka/producer/appender.py": "sends the queues of partitions, several batches at a time",
    "kafka/producer/topic_writer.py": "sends records of twinlog's own topics, a batch of a partition at a time",
    "copier/partition/aborted_transactions.py": "sends records of an aborted transaction, with an id of its own",
}
"""Where produce requests are made, with the reason."""

CLIENTS = {"client", "_client", "source", "_source", "target", "_target"}
"""The names of clients of a cluster."""

APPEND_OF_A_CLIENT = r"(client|source|target)\s*\.\s*append\b"
"""What a module with such a request has in its text, also where the call takes several lines."""

STAMPS = {
    "kafka/record/stamp.py": "numbers the batches of idempotent and transactional producers",
    "kafka/record/builder.py": "makes batches of a producer without an id, which have no number",
}
"""Where a batch gets its producer, with the reason."""

PRODUCE_CODES = {
    *("OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"),
    *("PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE", "TRANSACTION_ABORTABLE"),
    *("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "CORRUPT_MESSAGE", "INVALID_RECORD", "INVALID_TIMESTAMP"),
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
}
"""The codes of `Code` that only the answer to a produce request, or to a request of a transaction, has."""

DECIDES = {
    "kafka/producer/produce_errors.py": "has the table",
    "kafka/protocol/error_codes.py": "has the codes, and which of them may pass",
    "kafka/coordinator/transactions.py": "asks the coordinator of a transaction",
    "copier/partition/dead_letters.py": "writes a record with a refused timestamp again at the present time",
    "copier/partition/refused_appends.py": "explains the answer of brokers before Kafka 2.4",
}
"""Where these codes are named, with the reason."""


def modules(excluded: dict[str, str], *patterns: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules of the package that are not excluded and have a match of each pattern: others need not be parsed."""
    for path in sorted(SOURCE.rglob("*.py")):
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")
        if not name.startswith(tuple(excluded)) and all(re.search(pattern, text) for pattern in patterns):
            yield name, ast.parse(text)


def calls_of(tree: ast.AST, name: str) -> list[int]:
    """The lines on which a module calls a function or a class of this name."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and name in {getattr(node.func, "id", None), getattr(node.func, "attr", None)}
    ]


def codes_of(tree: ast.AST) -> list[str]:
    """The codes of produce errors that a module names."""
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return sorted(names & PRODUCE_CODES)


def appends_of(tree: ast.AST) -> list[int]:
    """The lines on which a module makes a produce request: a broker, batches and a timeout are given to a client."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "append"
        and len(node.args) > 1
        and {getattr(node.func.value, "id", ""), getattr(node.func.value, "attr", "")} & CLIENTS
    ]


def test_fetch_requests_are_made_by_the_readers_of_the_client() -> None:
    """`leader_fetch.RangeFetch` reads a range of a partition, `fetch_once` asks many leaders once."""
    found = [(name, line) for name, tree in modules(FETCHES, "FetchSession") for line in calls_of(tree, "FetchSession")]
    assert found == []


def test_each_module_with_fetch_requests_is_known() -> None:
    """A list with a module that makes no fetch requests any more would hide the next one."""
    names = [name for name, tree in modules({}, "FetchSession") if calls_of(tree, "FetchSession")]
    assert [place for place in FETCHES if not any(name.startswith(place) for name in names)] == []


def test_a_second_fetch_loop_is_found() -> None:
    code = "while x:\n    y = fetch_session.FetchSession(client, 1)\n    FetchSession(client, 2)\nFetchSession.x()"
    assert calls_of(ast.parse(code), "FetchSession") == [2, 3]


def test_produce_requests_are_made_by_the_appender_and_the_topic_writer() -> None:
    found = [(name, appends_of(tree)) for name, tree in modules({}, APPEND_OF_A_CLIENT)]
    assert {name for name, lines in found if lines} == set(APPENDS)


def test_the_batches_of_a_producer_are_numbered_in_one_place() -> None:
    found = [(name, line) for name, tree in modules({}, r"stamp\(") for line in calls_of(tree, "stamp")]
    assert {name for name, _ in found} == set(STAMPS)
    assert len(found) == len(STAMPS)


def test_one_table_decides_about_produce_errors() -> None:
    found = {name for name, tree in modules({}, r"Code\.", "|".join(PRODUCE_CODES)) if codes_of(tree)}
    assert found | {"kafka/protocol/error_codes.py"} == set(DECIDES)


def test_a_second_appender_is_found() -> None:
    code = "await self._client.append(1, {}, 2)\nstamp(batch, *producer, 3)\nx = code == Code.MESSAGE_TOO_LARGE"
    tree = ast.parse(code)
    assert (appends_of(tree), calls_of(tree, "stamp"), codes_of(tree)) == ([1], [2], ["MESSAGE_TOO_LARGE"])


RETRIES = {
    "connect/group/group.py:WorkerGroup.confirm_membership": "ends with the term, and asks again after an answer, too",
    "copier/granted_partitions.py:PartitionStarter._begin_together": "each try is for the partitions that are left",
    "copier/recovery.py:MaxMessageBytes.refresh_limit": "waits for a limit between successful questions",
    "copier/offset_committer.py:OffsetCommitter._keep_positions": "stores newer positions at each turn",
    "copier/offset_fillers.py:OffsetFillers.fill": "ends with the partition",
    "copier/partition/dead_letters.py:DeadLetters.write": "ends with the append that waits",
    "copier/partition/offset_steps.py:OffsetSteps._do": "ends with the step, and looks at the log before each try",
    "copier/partition/routes.py:Routes._have_it_fail": "ends with the unit",
    "copier/partition/routes.py:Routes._make_ready": "ends with the unit",
    "copier/partition/routes.py:Routes._send_again": "ends with the routes",
    "copier/proof/prover.py:Prover._look_back": "ends with the transactions",
    "copier/recovery.py:Recovery._check": "waits for the partition's rest before each try",
    "copier/recovery.py:Recovery._copy_again": "ends with the partition",
    "copier/recovery.py:Recovery._resolve_until": "ends with the partition",
    "copier/remote_bounds.py:RemoteBounds.keep": "compares the present logs at each interval",
    "copier/transactions/transactions.py:Transactions._run": "the next transaction has other records",
    "spark/dataframes/record_appender.py:RecordAppender._admit": "each try is for the partitions that are left",
    "kafka/client.py:ClusterClient.send_request": "each try has a shorter timeout, and a lost bootstrap ends the tries",
    "kafka/consumer/leader_fetch.py:RangeFetch.answers": "an answer without records is a failure, too",
    "kafka/consumer/partition_reader.py:SourceReader._keep_leaders": "looks for leaders when one is unknown",
    "kafka/consumer/partition_reader.py:SourceReader._run": "each fetch is for the partitions that are wanted then",
    "kafka/coordinator/group_session.py:GroupSession.send_heartbeats": "sends a heartbeat at each interval",
    "kafka/producer/appender.py:TargetAppender._keep_leaders": "looks for leaders when one is unknown",
    "ops/groups/command.py:wait_until_done": "shows the groups at each interval",
    "ops/topics/reader.py:TopicsReader.wait": "looks for an outcome at each interval",
    "worker/reload/reload_requests.py:ReloadRequests._run": "reads new requests at each interval",
    "worker/topics/topic_conflicts.py:_Conflict._look": "looks at another cluster's topics at each interval",
}
"""Loops that call a cluster again after an error without `kafka/retry.py`, each with the reason."""


ERRORS, PAUSES = r"\b(ClusterError|TwinlogError)\b", r"pause|sleep|wait"
"""Words without which a module has no such loop."""


def retry_loops(tree: ast.AST) -> list[str]:
    """The functions with a loop that handles an error of a cluster and pauses."""
    found: list[str] = []

    def visit(node: ast.AST, names: list[str]) -> None:
        for child in ast.iter_child_nodes(node):
            inner = names
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner = [*names, child.name]
            elif isinstance(child, ast.While | ast.For | ast.AsyncFor) and _handles(child) and _pauses(child):
                found.append(".".join(names))
            visit(child, inner)

    visit(tree, [])
    return sorted(set(found))


def _handles(loop: ast.AST) -> bool:
    handlers = [node.type for node in ast.walk(loop) if isinstance(node, ast.ExceptHandler) and node.type is not None]
    names = {node.id for handler in handlers for node in ast.walk(handler) if isinstance(node, ast.Name)}
    return not names.isdisjoint({"ClusterError", "TwinlogError"})


def _pauses(loop: ast.AST) -> bool:
    names = {getattr(node, "id", None) or getattr(node, "attr", None) or "" for node in ast.walk(loop)}
    return not {name.lstrip("_") for name in names}.isdisjoint({"pause", "sleep", "wait"})


def test_failed_calls_are_made_again_by_the_functions_for_it() -> None:
    """`kafka/retry.py` has them, for coroutines and for threads, and the table of their policies."""
    loops = [
        f"{name}:{function}"
        for name, tree in modules({"kafka/retry.py": "has the functions"}, "except", ERRORS, PAUSES)
        for function in retry_loops(tree)
    ]
    assert sorted(set(loops) - RETRIES.keys()) == []
    assert sorted(RETRIES.keys() - set(loops)) == [], "a loop is gone: its row would hide the next one"


def test_the_pauses_of_retries_are_in_one_table() -> None:
    """`kafka/retry.py` has the named policies; a pause of an interval has another name than RETRY."""
    found = [
        (name, node.id)
        for name, tree in modules({"kafka/retry.py": "has the table"}, "RETRY")
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and "RETRY" in node.id
    ]
    assert found == []


def test_a_second_retry_loop_is_found() -> None:
    code = """
class Job:
    def run(self):
        while True:
            try:
                self.step()
            except (OSError, ClusterError):
                self.clock.sleep(1)

    def each(self):
        for item in self.items:
            with suppress(ClusterError):
                self.clock.sleep(1)

def once():
    try:
        step()
    except ClusterError:
        sleep(1)

async def again():
    async for item in items:
        try:
            await step(item)
        except TwinlogError:
            pass
        await loop.sleep(1)
"""
    assert retry_loops(ast.parse(code)) == ["Job.run", "again"]

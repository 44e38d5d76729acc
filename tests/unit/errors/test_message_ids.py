"""The id of a message: in front of a line, once, and kept on the way from a task to the log of the driver."""

from __future__ import annotations

import logging
import pickle
import ssl

import pytest

from twinlog.clock import SYSTEM
from twinlog.copier.partition.context import CopierListener
from twinlog.errors import ClusterError, CorruptBatchError, GapError, RefusedError, TwinlogError
from twinlog.errors.message_ids import ID, id_first, id_of, split_id, told, with_event_id, with_id, without_id
from twinlog.kafka.auth.refusal import cause_id, of_tls
from twinlog.kafka.net.contact import reason
from twinlog.lease.messages import Failed, decode, encode
from twinlog.model.held import HeldPartition
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.explain.table import MESSAGES, messages_in
from twinlog.worker.status.held_and_paused import FlowHeldPartitions

PART = TopicPartition(TopicName("orders"), 3)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a->b: no answer", "TW-NET-01: a->b: no answer"),
        ("a->b: FAILED: TW-RECORD-03: a batch is corrupt", "TW-RECORD-03: a->b: FAILED: a batch is corrupt"),
        ("TW-GAP-01: orders-3 is held", "TW-GAP-01: orders-3 is held"),
        ("f:9: k: wrong [TW-FILE-22]", "TW-FILE-22: f:9: k: wrong"),
        ("f:9: k: x [TW-FILE-22]\nf:8: l: y [TW-FILE-01]", "f:9: k: x [TW-FILE-22]\nf:8: l: y [TW-FILE-01]"),
        ("TW-GAP-01: one; TW-GAP-02: other", "TW-GAP-01: one; TW-GAP-02: other"),
    ],
)
def test_the_id_comes_first(text: str, line: str) -> None:
    assert with_id(text, "TW-NET-01") == line


def test_an_id_moves_to_the_front_only_if_there_is_one() -> None:
    assert id_first("Request timed out. It tries again: TW-NET-02: east is silent") == (
        "TW-NET-02: Request timed out. It tries again: east is silent"
    )
    assert id_first("Connector c not found") == "Connector c not found"
    assert without_id("TW-SWITCH-01: producers still write to t") == "producers still write to t"
    assert without_id("producers still write to t") == "producers still write to t"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Invalid value 0 for x: too small [TW-FILE-22]", ("Invalid value 0 for x: too small", "TW-FILE-22")),
        ("TW-FILE-31: 'Jdbc' is unknown", ("'Jdbc' is unknown", "TW-FILE-31")),
        ("Value must be at least 1", ("Value must be at least 1", "")),
    ],
)
def test_a_text_is_split_into_words_and_id(text: str, parts: tuple[str, str]) -> None:
    assert split_id(text) == parts


def test_the_cause_counts_before_the_class_and_the_step() -> None:
    refused = RefusedError("user lacks READ", message_id="TW-AUTH-01")
    assert id_of(refused, "TW-NET-13") == "TW-AUTH-01"
    assert id_of(RefusedError("user lacks READ"), "TW-NET-13") == "TW-NET-13"
    assert told(refused, "TW-FLOW-01") == "TW-AUTH-01: user lacks READ"
    assert told(CorruptBatchError("a batch is corrupt"), "TW-FLOW-01") == "TW-RECORD-03: a batch is corrupt"
    assert told(OSError("no space"), "TW-FLOW-01") == "TW-FLOW-01: no space"


def test_an_event_has_the_id_of_its_kind_or_of_its_text() -> None:
    assert with_event_id("foreign", "t-0: x") == "TW-TARGET-04: foreign: t-0: x"
    assert with_event_id("gap", "TW-GAP-02: t-0: x") == "TW-GAP-02: gap: t-0: x"


@pytest.mark.parametrize(
    "error",
    [
        RefusedError("no", resource="topic t", way_out="grant it", message_id="TW-AUTH-01"),
        GapError("lost", kind="truncation", resume_at=5, message_id="TW-GAP-02"),
        ClusterError("silent", message_id="TW-NET-02"),
    ],
)
def test_an_error_keeps_its_id_from_a_task_to_the_driver(error: TwinlogError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), found.message_id) == (type(error), str(error), error.message_id)


def test_a_failure_keeps_its_id_in_the_message_of_a_copier() -> None:
    text = told(RefusedError("user lacks READ", message_id="TW-RIGHT-02"), "TW-FLOW-01")
    failed = Failed(PART, "RefusedError", text)
    assert decode(encode(failed)) == failed
    assert failed.text.startswith("TW-RIGHT-02: ")


def _certificate(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("certificate verify failed")
    error.verify_code, error.verify_message = code, "words of OpenSSL"
    return error


def _alert(name: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "alert")
    error.reason = name
    return error


@pytest.mark.parametrize(
    ("text", "message_id"),
    [
        (of_tls(_certificate(62), "h", certificate=False), "TW-NET-06"),
        (of_tls(_certificate(20), "h", certificate=False), "TW-NET-05"),
        (of_tls(_certificate(10), "h", certificate=False), "TW-NET-10"),
        (of_tls(_certificate(9), "h", certificate=False), "TW-NET-10"),
        (of_tls(_certificate(66), "h", certificate=False), "TW-NET-08"),
        (of_tls(_certificate(99), "h", certificate=False), "TW-NET-05"),
        (of_tls(_alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "h", certificate=False), "TW-NET-07"),
        (of_tls(_alert("TLSV1_ALERT_UNKNOWN_CA"), "h", certificate=True), "TW-NET-07"),
        (of_tls(_alert("TLSV1_ALERT_PROTOCOL_VERSION"), "h", certificate=False), "TW-NET-09"),
        (of_tls(_alert("SSLV3_ALERT_HANDSHAKE_FAILURE"), "h", certificate=False), "TW-NET-09"),
        (of_tls(_alert("WRONG_VERSION_NUMBER"), "h", certificate=False), "TW-NET-03"),
        (of_tls(_alert("EE_KEY_TOO_SMALL"), "h", certificate=False), "TW-NET-08"),
        (reason(OSError("ECONNREFUSED"), "SSL"), "TW-NET-01"),
        (reason(OSError("DNS lookup failed"), "SSL"), "TW-NET-02"),
        (reason(OSError("EHOSTUNREACH"), "SSL"), "TW-NET-02"),
        (reason(OSError("a frame of 352518912 bytes"), "PLAINTEXT"), "TW-NET-03"),
        (reason(OSError("socket disconnected"), "PLAINTEXT"), "TW-NET-03"),
    ],
)
def test_each_cause_of_a_failed_connection_has_its_id(text: str | None, message_id: str) -> None:
    assert text is not None
    assert cause_id(f"no broker can be reached: h:9092: {text}") == message_id


def test_the_lines_of_real_classes_are_explained(caplog: pytest.LogCaptureFixture) -> None:
    held = HeldPartition.by(
        GapError("source offsets 5 to 7 were deleted before they were copied", kind="retention", resume_at=8),
        PART,
        0,
        source_offset=SourceOffset(5),
        target_offset=TargetOffset(5),
    )
    flow = FlowHeldPartitions("east->west", lambda _: None, SYSTEM)
    flow.add_held(held)
    flow.retry_due_partitions()
    listener = CopierListener()
    listener.report_held(held)
    listener.report_event("foreign", "west.orders-3: somebody else writes to this remote topic")
    listener.report_failure(PART, CorruptBatchError("batch at source offsets 1 to 2 is corrupt"))
    ids = []
    for record in caplog.records:
        assert record.levelno >= logging.WARNING
        line = record.getMessage()
        assert len(ID.findall(line)) == 1
        (message,) = messages_in(f"2026-11-29 08:00:00,123 {record.levelname} {line}")
        assert line.startswith(f"{message.id}: ")
        assert message is MESSAGES[message.id]
        ids.append(message.id)
    assert ids == ["TW-GAP-01", "TW-GAP-01", "TW-TARGET-04", "TW-RECORD-03"]

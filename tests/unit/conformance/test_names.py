"""Stand-ins are put into requests and taken out of answers."""

from __future__ import annotations

from conformance.names import Names

NAMES = Names({"worker-1": "127.0.0.1:80", "worker-2": "127.0.0.1:8083"}, {"cluster": "abc"})


def test_stand_ins_are_replaced_wherever_they_stand() -> None:
    asked = {"a <worker-1>": ["<worker-2>", 3, None, {"b": "x<worker-1>y"}], "c": "<cluster>"}
    assert NAMES.put_in(asked) == {
        "a 127.0.0.1:80": ["127.0.0.1:8083", 3, None, {"b": "x127.0.0.1:80y"}],
        "c": "<cluster>",
    }


def test_the_longer_of_two_texts_is_taken_out_first() -> None:
    assert NAMES.take_out(["127.0.0.1:8083/127.0.0.1:80", {"abc": True}]) == [
        "<worker-2>/<worker-1>",
        {"<cluster>": True},
    ]


def test_bytes_are_changed_as_text_is_and_others_stay_as_they_are() -> None:
    assert NAMES.put_in(b"gr\xfcn <worker-1>") == b"gr\xfcn 127.0.0.1:80"
    assert NAMES.take_out(b"\x00\xff") == b"\x00\xff"

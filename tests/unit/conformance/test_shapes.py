"""What of a body counts."""

from __future__ import annotations

from typing import Any

from conformance.shapes import (
    as_written,
    bare_message,
    errors_only,
    in_order,
    members,
    offsets_in_order,
    plugin_keys,
    settled,
    topics_in_order,
    validated,
    values_of,
)


def _entry(name: str, value: object, *errors: str) -> dict[str, Any]:
    definition = {"name": name, "type": "STRING", "documentation": "what it is"}
    return {"definition": definition, "value": {"name": name, "value": value, "errors": list(errors)}}


VALIDATION = {
    "name": "C",
    "error_count": 1,
    "groups": ["Common"],
    "configs": [_entry("a", "1"), _entry("b", None, "bad")],
}


def test_what_a_run_or_a_release_alone_has_is_settled() -> None:
    body = {
        "version": "4.3.0",
        "commit": "ab12",
        "tasks": [{"trace": "java.lang.X", "version": "1.0"}],
        "last_modified": 17,
        "other": {"last_modified": None},
        "message": "plugins: {version='4.3.0'}",
    }
    assert settled(body, "4.3.0") == {
        "version": "<kafka>",
        "commit": "<commit>",
        "tasks": [{"trace": "<trace>", "version": "1.0"}],
        "last_modified": "<time>",
        "other": {"last_modified": None},
        "message": "plugins: {version='<kafka>'}",
    }


def test_lists_without_an_order_are_sorted() -> None:
    assert in_order(["b", "a"]) == ["a", "b"]
    assert topics_in_order({"c": {"topics": ["b", "a"]}}) == {"c": {"topics": ["a", "b"]}}
    offsets = [{"partition": {"p": 1}, "offset": None}, {"partition": {"p": 0}, "offset": {"offset": 3}}]
    assert offsets_in_order({"offsets": offsets})["offsets"] == [offsets[1], offsets[0]]


def test_an_error_in_place_of_what_was_asked_keeps_its_shape() -> None:
    error = {"error_code": 404, "message": "no"}
    for shape in (in_order, topics_in_order, offsets_in_order, plugin_keys, validated, errors_only):
        assert shape(error) == error


def test_keys_of_a_plugin_stand_by_name_beside_their_order() -> None:
    keys = [{"name": "b", "type": "INT"}, {"name": "a", "type": "LIST"}]
    assert plugin_keys(keys) == {"order": ["b", "a"], "keys": {"a": keys[1], "b": keys[0]}}


def test_a_page_for_people_is_named_by_its_title() -> None:
    assert (
        settled("<html>\n<head><title>Error 400 Bad URI</title></head></html>", "4.3.0") == "<page: Error 400 Bad URI>"
    )
    assert settled("no page", "4.3.0") == "no page"


def test_tasks_of_what_was_written_are_left_out_or_sorted() -> None:
    written = {"name": "a", "config": {}, "tasks": [{"task": 1}], "type": "source"}
    assert as_written(written)["tasks"] == ["<tasks>"]
    restarted = {"name": "a", "connector": {}, "tasks": [{"id": 1}, {"id": 0}], "type": "source"}
    assert as_written(restarted)["tasks"] == [{"id": 0}, {"id": 1}]
    assert as_written({"error_code": 500}) == {"error_code": 500}


def test_a_validation_is_kept_whole_but_for_what_keys_mean() -> None:
    assert validated(VALIDATION)["order"] == ["a", "b"]
    assert validated(VALIDATION)["configs"]["a"] == {
        "definition": {"type": "STRING"},
        "value": _entry("a", "1")["value"],
    }


def test_of_a_validation_errors_always_count_and_values_where_they_are_asked_for() -> None:
    assert list(errors_only(VALIDATION)["configs"]) == ["b"]
    assert values_of("a")(VALIDATION)["configs"]["a"] == {"name": "a", "value": "1", "errors": []}
    assert errors_only(VALIDATION)["error_count"] == 1


def test_a_key_without_a_definition_is_named_by_its_value() -> None:
    entry = {"definition": None, "value": {"name": "own", "value": "x", "errors": ["unknown"]}}
    assert errors_only({"configs": [entry]})["configs"] == {"own": entry["value"]}


def test_a_key_that_is_named_twice_is_kept_twice() -> None:
    twice = {"configs": [_entry("a", "1", "bad"), _entry("a", None, "worse")]}
    assert list(errors_only(twice)["configs"]) == ["a", "a (again)"]


def test_a_message_without_the_exceptions_in_front_of_it() -> None:
    wrapped = {"message": "org.apache.a.BadRequestException: org.apache.b.ConnectException: Failed: x"}
    assert bare_message(wrapped) == {"message": "Failed: x"}
    assert bare_message([wrapped]) == [wrapped]


def test_only_members_that_are_asked_for() -> None:
    assert members("a")({"a": 1, "b": 2}) == {"a": 1}

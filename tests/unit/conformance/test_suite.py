"""The suite as it stands: enough calls, each with an answer of every release, and no difference unexplained."""

from __future__ import annotations

import pytest

from conformance.call import Call
from conformance.compare import between, golden_answers, idle
from conformance.golden import HOME
from conformance.meant import RELEASES
from conformance.resources import RESOURCES
from conformance.stage import Resource

NAMES = [resource.name for resource in RESOURCES]
AT_LEAST = 150


def test_names_are_given_once() -> None:
    assert len(NAMES) == len(set(NAMES))
    for resource in RESOURCES:
        calls = [step.name for step in resource.steps]
        assert len(calls) == len(set(calls)), resource.name


def test_there_are_enough_calls_and_many_are_refused() -> None:
    for version in RELEASES:
        answers = [answer for name in NAMES for answer in golden_answers(version, name)]
        assert len(answers) >= AT_LEAST
        assert sum(answer.status >= 400 for answer in answers) > len(answers) / 4


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("resource", RESOURCES, ids=NAMES)
def test_every_call_has_its_answer(resource: Resource, version: str) -> None:
    expected = [(step.name, step.request) for step in resource.steps if isinstance(step, Call)]
    if version not in resource.arrangement.releases:
        expected = []
    kept = golden_answers(version, resource.name)
    assert [(answer.name, answer.request) for answer in kept] == expected
    assert not [
        answer.name for answer in kept if answer.late is not None or (answer.status == 0 and "gone" not in answer.name)
    ]


def test_no_answer_is_left_of_a_call_that_went() -> None:
    for version in RELEASES:
        assert {file.stem for file in (HOME / version).glob("*.json")} <= set(NAMES)


def test_every_difference_between_the_releases_is_explained() -> None:
    assert between(*RELEASES, NAMES) == []


def test_every_explanation_explains_something() -> None:
    assert idle(*RELEASES, NAMES) == []


def test_no_address_folder_or_trace_of_one_run_is_kept() -> None:
    for file in HOME.rglob("*.json"):
        text = file.read_text(encoding="utf-8")
        assert "127.0.0.1" not in text, file
        assert "/tmp/" not in text, file
        assert "\\tat org.apache" not in text, file

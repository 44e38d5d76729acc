"""Rights are withdrawn without the rights of MirrorMaker 2, which runs its file on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.ops.acls.scripted_acls import LOGIN, flows, write
from twinlog.cli.main import app
from twinlog.config import load
from twinlog.model.acls import Acl, AclIndex
from twinlog.ops.acls.needs import ROWS, needed_rights, rights_of_mirror_maker, withdrawn_rights
from twinlog.ops.acls.rights import USES

LINES = ("topics = orders, pay.*", "groups = shop", "east->west.sync.group.offsets.enabled = true")


def given(found: list[dict[str, Any]], change: str) -> set[tuple[str, str, str]]:
    return {
        (one["cluster"], one["name"], operation)
        for one in found
        if one["change"] == change
        for operation in one["operations"]
    }


def test_rights_of_mirror_maker_stay_and_rights_of_twinlog_go(tmp_path: Path) -> None:
    some = flows(tmp_path, *LINES, "twinlog.offsets = identical")
    rights, kept = needed_rights(some, USES), rights_of_mirror_maker(some)
    gone, lost = withdrawn_rights(rights, kept)
    names = {(one.cluster, one.resource.name, one.operation.name) for one in gone}
    assert ("west", "east.orders", "DELETE") in names, "for identical offsets"
    assert ("east", "mm2-twinlog-", "READ") in names, "for audit"
    for stays in (
        ("east", "orders", "READ"),
        ("east", "orders", "DESCRIBE_CONFIGS"),
        ("east", "mm2-offset-syncs.west.internal", "WRITE"),
        ("east", "shop", "DESCRIBE"),
        ("west", "east.pay", "WRITE"),
        ("west", "east.pay", "CREATE"),
        ("west", "shop", "READ"),
        ("west", "mm2-", "WRITE"),
        ("west", "east-mm2", "READ"),
        ("west", "kafka-cluster", "ALTER"),
    ):
        assert stays not in names, stays
    assert ("west", "mm2-", "ALTER_CONFIGS") in names
    assert ("west", "mm2-", "DESCRIBE_CONFIGS") in {
        (one.cluster, one.resource.name, one.operation.name) for one in lost
    }


def test_mirror_maker_keeps_every_right_that_it_needs() -> None:
    """All rows of MirrorMaker 2 are rows of a run, so that a page of a run's rights has them."""
    assert all("run" in row.uses for row in ROWS if row.mm2)


@pytest.mark.parametrize("uses", [("run",), USES])
def test_mirror_maker_can_do_after_a_withdrawal_all_that_it_could_before(tmp_path: Path, uses: tuple[str, ...]) -> None:
    some = flows(tmp_path, *LINES, "twinlog.fence.writers = true", "west.exactly.once.source.support = enabled")
    rights, kept = needed_rights(some, uses), rights_of_mirror_maker(some)
    gone, lost = withdrawn_rights(rights, kept)
    for cluster in ("east", "west"):
        left: list[Acl] = [one.as_acl for one in [*rights, *lost] if one.cluster == cluster and one not in gone]
        index = AclIndex(left)
        assert all(index.gives(one.as_acl) for one in kept if one.cluster == cluster)


def test_a_canary_gives_back_only_its_own_rights(tmp_path: Path) -> None:
    logins = LOGIN.format(alias="east", user="mirror") + LOGIN.format(alias="west", user="mirror")
    file = write(tmp_path, *LINES, logins=logins)
    folder = tmp_path / "canary"
    made = CliRunner().invoke(app, ["canary", str(file), "--topic", "orders", "--output-dir", str(folder)])
    assert made.exit_code == 0, made.output
    words = ["acls", str(folder / "canary.properties"), "--for", "run", "--withdraw", str(file)]
    done = CliRunner().invoke(app, [*words, "-o", "json"])
    assert done.exit_code == 0, done.output
    gone = given(json.loads(done.stdout), "remove")
    assert {name for cluster, name, _ in gone if cluster == "west"} == {
        "mm2-",
        "east-canary.orders",
        "east-canary.checkpoints.internal",
        "east-canary-mm2",
    }
    assert ("west", "mm2-", "WRITE") not in gone
    assert {cluster for cluster, *_ in gone} == {"west"}, "MirrorMaker 2 reads the source with these rights"
    text = CliRunner().invoke(app, words).stdout
    removed = [line for line in text.splitlines() if "--remove" in line]
    assert removed
    assert all("--remove --force --allow-principal User:mirror" in line for line in removed)
    swapped = CliRunner().invoke(
        app, ["acls", str(file), "--withdraw", str(folder / "canary.properties")], env={"COLUMNS": "300"}
    )
    assert swapped.exit_code == 2
    assert "is a canary's file, and these commands would remove rights of MirrorMaker 2" in swapped.output
    whole = CliRunner().invoke(app, [*words[:2], *words[4:]])
    every = whole.stdout
    (note,) = (line for line in whole.stderr.splitlines() if "audit" in line)
    assert note == (
        f"they also remove rights of twinlog audit {file}: DESCRIBE on topic __consumer_offsets; READ on topic "
        "mm2-twinlog- (prefix) of east for User:mirror; DESCRIBE on topic __consumer_offsets of west for User:mirror; "
        f"after them twinlog acls {file} --for audit --missing prints the commands that grant these rights"
    )
    assert "--command-config east-admin.properties --remove" in every, "the alias of MirrorMaker 2's file"
    assert "east-canary-admin" not in every


def test_a_withdrawal_removes_the_rights_that_any_command_had(tmp_path: Path) -> None:
    logins = LOGIN.format(alias="east", user="mirror") + LOGIN.format(alias="west", user="mirror")
    file = write(tmp_path, *LINES, logins=logins)
    wave = tmp_path / "wave.properties"
    wave.write_text(f"{file.read_text()}\nwest.group.id = east-mm2-twinlog\n")
    left: dict[Path, str] = {}
    for one in (file, wave):
        done = CliRunner().invoke(app, ["acls", str(one), "--withdraw", str(file), "-o", "json"])
        assert done.exit_code == 0, done.output
        rights = set()
        for use in USES:
            printed = CliRunner().invoke(app, ["acls", str(one), "--for", use, "-o", "json"])
            rights |= given(json.loads(printed.stdout), "add")
        of_mm2 = {
            (right.cluster, right.resource.name, right.operation.name)
            for right in rights_of_mirror_maker(load(file).flows)
        }
        assert given(json.loads(done.stdout), "remove") >= rights - of_mm2
        left[one] = done.stderr
    gone = given(json.loads(done.stdout), "remove")
    # The wave needed it to see MirrorMaker 2, which has READ.
    assert {("west", "east-mm2-twinlog", "READ"), ("west", "east-mm2", "DESCRIBE")} <= gone
    note = "these commands leave the rights of other files, for example of a wave with its own group.id: run twinlog "
    fence = (
        "a switchover lifts its fence with these rights: before these commands run twinlog switchover with --release"
    )
    for text in left.values():
        first, audit, last = text.splitlines()
        assert first == f"{note}acls WAVE_FILE --withdraw {file} for each"
        assert audit.startswith(f"they also remove rights of twinlog audit {file}: ")
        assert last == f"{fence}, else producers stay fenced"
    some = CliRunner().invoke(app, ["acls", str(file), "--for", "run,audit", "--withdraw", str(file)])
    assert some.stderr.startswith("these commands leave the rights of diff, groups, log-level, plan, reload, ")
    assert "fence" not in some.stderr


@pytest.mark.parametrize("options", [("--missing",), ("-o", "strimzi")])
def test_a_withdrawal_has_forms_of_its_own(tmp_path: Path, options: tuple[str, ...]) -> None:
    file = str(write(tmp_path, *LINES))
    done = CliRunner().invoke(app, ["acls", file, "--withdraw", file, *options], env={"COLUMNS": "300"})
    assert done.exit_code == 2
    assert "it prints commands of Kafka's tools or JSON" in done.output

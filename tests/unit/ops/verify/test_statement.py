"""A statement is found altered by any byte, its keys are Ed25519 alone, and openssl checks it offline."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from typer.testing import CliRunner

from twinlog import __version__
from twinlog.cli.main import app
from twinlog.errors import OptionError
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.verify.model import (
    ComparedRange,
    PartitionToVerify,
    RecordDifference,
    UncomparedRange,
    Verdict,
    VerifyRules,
)
from twinlog.ops.verify.planner import VerifyPlan
from twinlog.ops.verify.signing import SigningKey, VerifyingKey
from twinlog.ops.verify.statement import (
    StatedCluster,
    Statement,
    StatementError,
    read_statement,
    signature_path,
    signed_files,
    state_comparison,
)
from twinlog.settings.client import ClientSettings, ConsumerSettings

NOW = 1_700_000_000.25


def drawn_key(chance: random.Random) -> SigningKey:
    return SigningKey(Ed25519PrivateKey.from_private_bytes(chance.randbytes(32)))


def row(number: int, **others: Any) -> Verdict:
    digests = {start: hashlib.sha256(b"%d" % start).hexdigest() for start in (0, 10)}
    ranges = [
        ComparedRange(start, start + 10, start + 5, start + 15, 10, start > 0, digest)
        for start, digest in digests.items()
    ]
    fields: dict[str, Any] = {"equal": True, "records": 20, "ranges": ranges, **others}
    return Verdict("a->b", "t", "a.t", number, 0, 20, 5, 25, **fields)


def content(key: SigningKey, *rows: Verdict, failed: dict[str, str] | None = None) -> dict[str, Any]:
    client = ClientSettings(("secret-host:9092",))
    rules = VerifyRules(ConsumerSettings(client), ConsumerSettings(client), "a", "b", range_records=10)
    parts = tuple(
        PartitionToVerify(
            "a->b", TopicPartition(TopicName("t"), one.partition), TopicPartition(TopicName("a.t"), one.partition)
        )
        for one in reversed(rows)
    )
    plan = VerifyPlan(rules, parts, cluster_ids=("id-of-a", "id-of-b"))
    return state_comparison([plan], rows, failed or {}, key, NOW)


def write(folder: Path, key: SigningKey, *rows: Verdict) -> Path:
    path = folder / "proof.json"
    for file, data in signed_files(path, content(key, *rows), key).items():
        file.write_bytes(data)
    return path


def test_a_statement_has_clusters_ranges_and_results(chance: random.Random) -> None:
    key = drawn_key(chance)
    different = row(1, equal=False, differences=2, records=18)
    different.first = RecordDifference("value", 7, 12, "value b'secret' became null")
    different.left = [UncomparedRange("source", 20, 30, "not yet")]
    found = content(key, row(0), different)
    assert (found["format"], found["version"], found["kind"]) == ("twinlog-statement", 1, "verify")
    assert (found["time"], found["twinlog"]) == ("2023-11-14T22:13:20.250+00:00", __version__)
    assert found["result"] == "different"
    (flow,) = found["flows"]
    assert flow["source"] == {"alias": "a", "cluster_id": "id-of-a"}
    assert flow["target"] == {"alias": "b", "cluster_id": "id-of-b"}
    first, second = flow["partitions"]
    assert (first["partition"], first["result"], len(first["ranges"])) == (0, "equal", 2)
    assert (second["result"], second["differences"]) == ("different", 2)
    assert second["first_difference"] == {"what": "value", "source_offset": 7, "target_offset": 12}
    # Neither contents of records nor addresses.
    assert "secret" not in json.dumps(found)
    assert content(key, row(0))["result"] == "equal"
    assert content(key, row(0), row(1, equal=None, problem="no leader"))["result"] == "not compared"
    assert content(key, row(0), failed={"c->b": "silent"})["result"] == "not compared"


def test_what_is_written_is_read(tmp_path: Path, chance: random.Random) -> None:
    key = drawn_key(chance)
    path = write(tmp_path, key, row(0), row(1))
    for found in (read_statement(path, key.public), read_statement(path, None)):
        assert isinstance(found, Statement)
        assert (found.kind, found.result, found.signer.pem) == ("verify", "equal", key.public.pem)
        (flow,) = found.flows
        assert (flow.flow, flow.cluster("source"), flow.isolation_level) == (
            "a->b",
            StatedCluster("a", "id-of-a"),
            "read_uncommitted",
        )
        assert [one.remote for one in flow.partitions] == [("a.t", 0), ("a.t", 1)]
        assert list(flow.partitions[1].ranges) == row(1).ranges


def test_any_changed_byte_is_found(tmp_path: Path, chance: random.Random) -> None:
    key = drawn_key(chance)
    path = write(tmp_path, key, row(0))
    for file in (path, signature_path(path)):
        whole = file.read_bytes()
        for at in range(len(whole)):
            changed = bytearray(whole)
            changed[at] ^= chance.randrange(1, 256)
            file.write_bytes(changed)
            for known in (key.public, None):
                with pytest.raises(StatementError):
                    read_statement(path, known)
        for other in (whole[:-1], whole + b"\n", b""):
            file.write_bytes(other)
            with pytest.raises(StatementError):
                read_statement(path, key.public)
        file.write_bytes(whole)
    assert read_statement(path, key.public).result == "equal"


def test_another_key_is_no_signer_even_if_the_statement_names_it(tmp_path: Path, chance: random.Random) -> None:
    key, other = drawn_key(chance), drawn_key(chance)
    path = write(tmp_path, other, row(0))
    assert read_statement(path, None).signer.fingerprint == other.public.fingerprint
    with pytest.raises(StatementError, match=r"does not fit .*: another key has signed it, or it was altered"):
        read_statement(path, key.public)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"format": "twinlog-statement", "version": 2}',
        '{"format": "twinlog-statement", "version": 1, "kind": "verify", "flows": [{}]}',
    ],
)
def test_a_signed_file_of_another_form_is_refused(tmp_path: Path, chance: random.Random, text: str) -> None:
    key, path = drawn_key(chance), tmp_path / "proof.json"
    path.write_text(text)
    signature_path(path).write_bytes(key.sign(text.encode()))
    with pytest.raises(StatementError, match="is no statement of version 1"):
        read_statement(path, key.public)


def test_a_statement_without_its_signature_is_unreadable(tmp_path: Path, chance: random.Random) -> None:
    path = write(tmp_path, drawn_key(chance), row(0))
    signature_path(path).unlink()
    with pytest.raises(OptionError, match=r"proof\.json\.sig is unreadable: No such file"):
        read_statement(path, None)


def test_only_keys_of_ed25519_without_a_password_sign(tmp_path: Path, chance: random.Random) -> None:
    key, path = drawn_key(chance), tmp_path / "key"
    path.write_bytes(key.pem)
    assert SigningKey.read(path).pem == key.pem
    with pytest.raises(OptionError, match="no public key of Ed25519"):
        VerifyingKey.read(path)
    path.write_bytes(key.public.pem)
    assert VerifyingKey.read(path).fingerprint == key.public.fingerprint
    with pytest.raises(OptionError, match="no private key in PEM; `twinlog keygen`"):
        SigningKey.read(path)
    path.write_bytes(key.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")))
    with pytest.raises(OptionError, match="has a password"):
        SigningKey.read(path)
    curve = ec.derive_private_key(7, ec.SECP256R1())
    path.write_bytes(curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(OptionError, match="another algorithm than Ed25519"):
        SigningKey.read(path)
    path.write_bytes(curve.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(OptionError, match="no public key of Ed25519"):
        VerifyingKey.read(path)
    with pytest.raises(OptionError, match="is unreadable"):
        SigningKey.read(tmp_path / "none")


def keygen(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["keygen", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


def test_keygen_writes_a_pair_and_writes_nothing_over(tmp_path: Path) -> None:
    path = tmp_path / "proof.key"
    public = tmp_path / "proof.key.pub.pem"
    code, out, _ = keygen("--out", path)
    assert code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("-----BEGIN PRIVATE KEY-----\n")
    assert public.read_text().startswith("-----BEGIN PUBLIC KEY-----\n")
    key = SigningKey.read(path)
    assert key.public.pem == public.read_bytes()
    assert out.strip() == key.public.fingerprint
    code, _, err = keygen("--out", path)
    assert (code, SigningKey.read(path).pem) == (2, key.pem)
    assert err == f"twinlog: TW-USE-02: {path} exists, and no key was written; name another file with --out\n"
    # Neither half of a pair is written over.
    path.unlink()
    code, _, err = keygen("--out", path)
    assert (code, path.exists(), public.read_bytes()) == (2, False, key.public.pem)
    code, _, err = keygen("--out", tmp_path)
    assert (code, "is a directory" in " ".join(err.split())) == (2, True)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the system has no openssl")
def test_openssl_checks_a_statement(tmp_path: Path) -> None:
    """The command of docs/verify.md."""
    keygen("--out", tmp_path / "proof.key")
    path = write(tmp_path, SigningKey.read(tmp_path / "proof.key"), row(0))

    def checked() -> tuple[int, str]:
        words = "-verify -pubin -inkey proof.key.pub.pem -rawin -in proof.json -sigfile proof.json.sig"
        command = ["openssl", "pkeyutl", *words.split()]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    code, said = checked()
    assert (code, "Signature Verified Successfully" in said) == (0, True), said
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", "proof.key.pub.pem", "-outform", "DER"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout
    assert VerifyingKey.read(tmp_path / "proof.key.pub.pem").fingerprint == f"sha256:{hashlib.sha256(der).hexdigest()}"
    path.write_bytes(path.read_bytes().replace(b'"records": 20', b'"records": 21'))
    code, said = checked()
    assert (code != 0, "Signature Verification Failure" in said) == (True, True), said

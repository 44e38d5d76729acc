"""The list of all that a release brings (SBOM): a CycloneDX document of the locked runtime requirements.

Each package of requirements/runtime.txt is a component with its licence, its dependencies and the hashes of the files
that the lock allows. PySpark's jars are components inside PySpark, with the hash of each jar. The console's scripts
are components with the hash of their npm package, and their files are components inside them.
"""

from __future__ import annotations

import base64
import importlib.metadata
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement

from scripts.release.archives import sha256
from scripts.release.checkout import ReleaseError
from scripts.release.packages import metadata

_BLOCK = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)[^\n]*\n((?:[ \t]+[^\n]*\n?)*)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VENDORED = "twinlog/ui/static/vendored.json"
_JAR = re.compile(r"(.+?)-(\d[\w.+-]*)\.jar")
_LICENCES = LicenseFactory()
_SPDX = {
    r"(the )?apache( software)? licen[sc]e(,? version 2(\.0)?| 2(\.0)?)?|apache 2(\.0)?": "Apache-2.0",
    r"apache\.org/licenses/license-2\.0|opensource\.org/licenses/apache2\.0\.php": "Apache-2.0",
    r"(the )?mit license|opensource\.org/licenses?/mit": "MIT",
    r"(new |the )?bsd license|(bsd )?3-clause bsd license|bsd[- ]3-clause": "BSD-3-Clause",
    r"(opensource|spdx)\.org/licenses?/bsd-3-clause|eclipse\.org/org/documents/edl-v10\.php": "BSD-3-Clause",
    r"opensource\.org/licenses?/bsd-2-clause|bsd 2-clause( license)?": "BSD-2-Clause",
    r"isc license \(iscl\)|isc": "ISC",
    r"eclipse\.org/legal/epl-2\.0|epl 2\.0|eclipse public license.*2\.0": "EPL-2.0",
    r"mozilla\.org/en-us/mpl/1\.1": "MPL-1.1",
}
"""SPDX ids of names and addresses of licences that packages and jars use, without scheme and ending."""


def locked(requirements: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The packages of a locked file: version and SHA-256 hashes of each."""
    return {name: (version, tuple(_HASH.findall(block))) for name, version, block in _BLOCK.findall(requirements)}


def write_bill(target: Path, wheel: Path, requirements: str, epoch: int, jars: Path | None) -> Path:
    """Write the document to `target`; `jars` is the folder of PySpark's jars.

    The same input gives the same bytes. Raises ReleaseError if the virtual environment has another version of a package
    than the lock, or if CycloneDX's schema refuses the document.
    """
    about = metadata(wheel)
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, sha256(wheel)))
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    version = about["Version"][0]
    main = Component(
        name="twinlog",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=f"pkg:pypi/twinlog@{version}",
        purl=PackageURL("pypi", name="twinlog", version=version),
        description=about["Summary"][0],
        licenses=[_LICENCES.make_from_string(about["License-Expression"][0])],
        external_references=[_file(wheel.name, [sha256(wheel)])],
    )
    bom.metadata.component = main
    components = {name: _component(name, *entry) for name, entry in locked(requirements).items()}
    if jars is not None:
        components["pyspark"].components.update(jar_components(jars))
    vendored = list(_vendored_components(wheel))
    for component in [*components.values(), *vendored]:
        bom.components.add(component)
    needed = [components[name] for name in _needed(about.get("Requires-Dist", []), components)]
    bom.register_dependency(main, [*needed, *vendored])
    for name, component in components.items():
        required = importlib.metadata.requires(name) or []
        bom.register_dependency(component, [components[other] for other in _needed(required, components)])
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise ReleaseError(f"CycloneDX's schema refuses {target.name}: {wrong}")
    target.write_text(text + "\n", encoding="utf-8")
    return target


def _component(name: str, version: str, hashes: tuple[str, ...]) -> Component:
    installed = importlib.metadata.version(name)
    if installed != version:
        raise ReleaseError(f".venv has {name} {installed}, and the lock has {version}: run `make .venv/.ready`")
    if not hashes:
        raise ReleaseError(f"The lock has no hash of {name} {version}: run `make lock`")
    licence = licence_of(importlib.metadata.metadata(name).json)
    purl = PackageURL("pypi", name=name, version=version)
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=str(purl),
        purl=purl,
        licenses=[licence] if licence is not None else [],
        external_references=[_file(str(purl), hashes)],
    )


def _file(url: str, hashes: Iterable[str]) -> ExternalReference:
    return ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(url),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in hashes],
        comment="SHA-256 of each file that the lock allows",
    )


def licence_of(about: Mapping[str, object]) -> License | None:
    """The licence that a package's metadata names: its SPDX expression, or else its classifier, or else its text."""
    expression = about.get("license_expression")
    if isinstance(expression, str):
        return _LICENCES.make_from_string(expression)
    classifiers = about.get("classifier")
    named = [
        text.rpartition(" :: ")[2]
        for text in (classifiers if isinstance(classifiers, list) else [])
        if text.startswith("License :: ") and text != "License :: OSI Approved"
    ]
    text = about.get("license")
    first = text.strip().splitlines()[0] if isinstance(text, str) and text.strip() else ""
    return _named_licence(first if _spdx(first) or not named else named[0])


def _named_licence(name: str) -> License | None:
    return _LICENCES.make_from_string(_spdx(name) or name) if name else None


def _spdx(name: str) -> str | None:
    bare = re.sub(r"^https?://(www\.)?|(\.html|\.txt|/)$", "", name.strip().lower())
    return next((found for pattern, found in _SPDX.items() if re.fullmatch(pattern, bare)), None)


def _needed(required: Iterable[str], components: Mapping[str, Component]) -> list[str]:
    """The components that `required` names; extras that nobody asked for are left out."""
    wanted = (Requirement(text) for text in required)
    names = {
        one.name.lower().replace("_", "-").replace(".", "-")
        for one in wanted
        if one.marker is None or one.marker.evaluate({"extra": ""})
    }
    return sorted(names & components.keys())


def jar_components(folder: Path) -> Iterator[Component]:
    """A component for each jar in a folder, with the Maven coordinates that the jar names, its hash and its licence."""
    for path in sorted(folder.rglob("*.jar")):
        found = _JAR.fullmatch(path.name)
        name, version = (found[1], found[2]) if found is not None else (path.stem, "")
        group, licence = _about_jar(path, name)
        purl = PackageURL("maven" if group else "generic", group or None, name, version or None)
        yield Component(
            group=group or None,
            name=name,
            version=version or None,
            type=ComponentType.LIBRARY,
            bom_ref=f"pyspark/{path.relative_to(folder).as_posix()}",
            purl=purl,
            licenses=[licence] if licence is not None else [],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256(path))],
            properties=[Property(name="twinlog:jar", value=path.relative_to(folder).as_posix())],
        )


def _vendored_components(wheel: Path) -> Iterator[Component]:
    """A component for each npm package with files in the wheel's console. Raises ReleaseError without their list."""
    with zipfile.ZipFile(wheel) as archive:
        if _VENDORED not in archive.namelist():
            raise ReleaseError(f"{wheel.name} has no {_VENDORED}")
        packages = json.loads(archive.read(_VENDORED))["packages"]
    for package in packages:
        purl = PackageURL("npm", name=package["package"], version=package["version"])
        files = [
            Component(
                name=name,
                type=ComponentType.FILE,
                bom_ref=f"{purl}/{name}",
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
            )
            for name, digest in package["files"].items()
        ]
        digest = base64.b64decode(package["integrity"].removeprefix("sha512-")).hex()
        yield Component(
            name=package["package"],
            version=package["version"],
            type=ComponentType.LIBRARY,
            bom_ref=str(purl),
            purl=purl,
            licenses=[_LICENCES.make_from_string(package["licence"])],
            external_references=[
                ExternalReference(
                    type=ExternalReferenceType.DISTRIBUTION,
                    url=XsUri(str(purl)),
                    hashes=[HashType(alg=HashAlgorithm.SHA_512, content=digest)],
                    comment="SHA-512 of the package in the registry",
                )
            ],
            components=files,
        )


def _about_jar(path: Path, name: str) -> tuple[str, License | None]:
    """The Maven group of a jar and its licence, as far as the jar names them."""
    with zipfile.ZipFile(path) as jar:
        places = [entry for entry in jar.namelist() if re.fullmatch(r"META-INF/maven/[^/]+/[^/]+/pom\.xml", entry)]
        own = next((entry for entry in places if entry.split("/")[3] in {name, re.sub(r"_2\.1\d$", "", name)}), "")
        pom = jar.read(own).decode(errors="replace") if own else ""
        manifest = (
            jar.read("META-INF/MANIFEST.MF").decode(errors="replace")
            if "META-INF/MANIFEST.MF" in jar.namelist()
            else ""
        )
    bundled = re.search(r"^Bundle-License: ([^;,\n]+)", manifest.replace("\r\n", "\n").replace("\n ", ""), re.MULTILINE)
    written = re.search(r"<license>\s*<name>([^<]+)</name>", pom)
    found = next((match[1].strip().strip('"') for match in (bundled, written) if match is not None), "")
    return own.split("/")[2] if own else "", _named_licence(found)

"""What is in the image: `sbom.cdx.json` (CycloneDX) for scanners and `versions.txt` for readers.
Runs at the end of its build.
"""

import hashlib
import importlib.metadata
import json
import re
import subprocess
import tomllib
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DPKG = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n"


def python_packages() -> list[dict[str, str]]:
    """The installed Python packages but the project's own: those of the lock."""
    versions = {
        re.sub("[_.]", "-", package.name).lower(): package.version
        for package in importlib.metadata.distributions()
    }
    versions.pop(PROJECT["name"], None)
    return [
        component(name, version, f"pkg:pypi/{name}@{quote(version)}")
        for name, version in sorted(versions.items())
    ]


def debian_packages() -> list[dict[str, str]]:
    """The installed Debian packages; advisories go by the source package, which the qualifier
    names.
    """
    rows = subprocess.run(
        ["dpkg-query", "-W", "-f", DPKG], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [
        component(
            name,
            version,
            f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={arch}&distro=debian-12&upstream={quote(f'{source}@{origin}')}",
        )
        for name, version, arch, source, origin in (row.split("\t") for row in sorted(rows))
    ]


def component(name: str, version: str, purl: str) -> dict[str, str]:
    """One component of the bill."""
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def bill() -> dict[str, object]:
    """The bill of materials. It holds neither a time nor a random number: the same packages give
    the same bytes.
    """
    lock = hashlib.sha256((ROOT / "envs" / "requirements.lock").read_bytes()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "name": PROJECT["name"],
                "version": PROJECT["version"],
                "licenses": [{"license": {"id": PROJECT["license"]}}],
            },
            "properties": [
                {"name": "gemm-ladder:revision", "value": (ROOT / "REVISION").read_text().strip()},
                {"name": "gemm-ladder:lock:sha256", "value": lock},
            ],
        },
        "components": python_packages() + debian_packages(),
    }


if __name__ == "__main__":
    made = bill()
    (ROOT / "sbom.cdx.json").write_text(json.dumps(made, indent=1) + "\n")
    (ROOT / "versions.txt").write_text(
        "".join(f"{c['purl'].split('?')[0]}\n" for c in made["components"])
    )

"""Describe a device and measure its peaks, for `environment.json`."""

from typing import Any

from ladder.compiling.provenance import describe, fingerprint
from ladder.core.errors import InputError
from ladder.core.files import digest
from ladder.devices.detect import DetectedDevice
from ladder.measuring import protocol
from ladder.measuring.supervisor import NO_FAULT, START_SECONDS, Child, Failure
from ladder.storage.journal import Journal


def probe(device: DetectedDevice, child: Child) -> dict[str, Any]:
    """Return the description of a device, and the peaks that its worker measures. Raises
    `InputError` if that fails.
    """
    try:
        (answer,) = child.ask(protocol.Probe(), START_SECONDS)
    except Failure as failure:
        raise InputError(
            f"{device.slug}: its peaks cannot be measured: {failure.reason}; {NO_FAULT}"
        ) from None
    assert isinstance(answer, protocol.Probed)
    _check_version(device, child)
    return describe(device) | {"attributes": child.attributes} | dict(answer.measured)


def _check_version(device: DetectedDevice, child: Child) -> None:
    """Raise `InputError` if the worker has another version of the library than the campaign names.
    cuBLAS itself knows three of a package's four numbers.
    """
    expected = f"cuBLAS {'.'.join(device.library.split('.')[:3])}"
    if device.library and child.attributes["library"] != expected:
        raise InputError(
            f"{device.library_folder}: got {child.attributes['library']}; expected {expected}, "
            f"which the campaign names as {device.library}"
        )


def probe_once(device: DetectedDevice, child: Child, journal: Journal, code: str) -> dict[str, Any]:
    """Return the description that the journal has of the same device, software and surroundings;
    probe only if it has none.

    A forced run then finds the description that the samples were measured with, and no other.
    `code` is the digest of the modules that probe.
    """
    key = digest([fingerprint(device), child.attributes, code])
    if key not in journal:
        journal.append({"key": key, "environment": probe(device, child)})
    environment: dict[str, Any] = journal[key]["environment"]
    return environment

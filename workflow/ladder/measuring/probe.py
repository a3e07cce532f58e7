"""Describe a device and measure its peaks, for `environment.json`."""

from pathlib import Path
from typing import Any

from ladder.compiling.provenance import describe
from ladder.devices.detect import Device
from ladder.measuring.worker import open_device

REPEATS = 100
"""Empty launches in a sample, which show the overhead that a launch has if launches are repeated."""


def library(device: Any) -> str:
    """Return name and version of the vendor's library that a device is compared with."""
    if device.kind == "cuda":
        return f"cuBLAS {device.blas.version()}"
    from ladder.devices import blas

    return blas.version()


def probe(device: Device, uuid: str, support: Path) -> dict[str, Any]:
    """Return the description of a device and the peaks measured on it; `support` is the compiled `devices/support.*`."""
    opened = open_device(device.kind, uuid, support)
    try:
        empty = {"launch_us": opened.launch_us(1), "repeated_launch_us": opened.launch_us(REPEATS)}
        measured = {"peaks": opened.peaks(), **empty, "idle": opened.monitor()}
        return describe(device) | {"attributes": opened.describe() | {"library": library(opened)}} | measured
    finally:
        opened.close()

"""The seam at which tests replace this machine's GPUs with simulated ones.

`LADDER_SIMULATION` names a Python file that detects, compiles for and opens GPUs that are not
there. No command sets it. The fingerprint of every measurement made with it has `"simulated":
true`: no real run reuses it, and `ladder publish` refuses such a dataset.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

VARIABLE = "LADDER_SIMULATION"


def variables() -> dict[str, str]:
    """Return the variables of a simulation, which its processes need. There are none unless
    `LADDER_SIMULATION` is set.
    """
    module = simulated()
    return (
        {name: os.environ[name] for name in (VARIABLE, *module.VARIABLES) if name in os.environ}
        if module
        else {}
    )


def simulated() -> Any:
    """Return the module that stands in for the GPUs, or None.

    It has `detect() -> list[DetectedDevice]`, `visible(slug) -> list[str]`,
    `compiler_version(compiler) -> str`,
    `compile(source) -> (cubin, usage)` and `open_device(uuid, support, library) -> Device`. `VARIABLES`
    names the variables that its processes need.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    if (folder := str(Path(path).parent)) not in sys.path:
        sys.path.append(folder)
    return import_module(Path(path).stem)

"""Makes a process that imports this first open a fake GPU, which needs no driver: `ladder.devices.cuda` is then the `cuda.py` here."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent


class Fakes:
    """Finds the fake modules in place of those of the same name."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The fake's place, if there is one."""
        fakes = {"ladder.devices.cuda": "cuda.py", "ladder.baselines.cublas": "cublas.py", "ladder.cubin": "cubin.py"}
        return spec_from_file_location(name, HERE / fakes[name]) if name in fakes else None


sys.meta_path.insert(0, Fakes())

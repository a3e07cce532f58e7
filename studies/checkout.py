"""A copy of the project in a folder of its own, to run Snakemake in."""

import os
import shutil
import site
import subprocess
import sysconfig
import venv
from pathlib import Path

from ladder.core.places import HOME


def interpreter(folder: Path, *first: Path | str) -> str:
    """Python of an environment made in `folder`; returns its path.

    There paths come before all that is installed in this process's, and `import` statements are run
    at each start.
    """
    venv.create(folder, symlinks=True)
    installed = "".join(
        f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages()
    )
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    (packages / "first.pth").write_text("".join(f"{line}\n" for line in first) + installed)
    return str(folder / "bin" / "python")


class Checkout:
    """A copy of the project with an environment of its own, whose `python` imports the copy's
    package.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(HOME / "Snakefile", folder)
        for name in ("workflow", "kernels", "config", "envs", "profiles"):
            shutil.copytree(HOME / name, folder / name)
        self.environment: dict[str, str] = {}
        """What it has besides this process's environment."""
        self.python = interpreter(folder / ".venv", folder / "workflow")

    def snakemake(
        self, *arguments: str, cores: int = 1, timeout: float = 3600
    ) -> subprocess.CompletedProcess[str]:
        """Run Snakemake; output and errors both in `stdout`."""
        command = [self.python, "-m", "snakemake", "--quiet", "host", "reason", f"--cores={cores}"]
        return subprocess.run(
            [*command, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            env=os.environ | {"NO_COLOR": "1"} | self.environment,
            check=False,
        )

    def ok(self, *arguments: str, cores: int = 1, timeout: float = 3600, code: int = 0) -> str:
        """Run Snakemake, which must end with the exit code; returns what it printed."""
        done = self.snakemake(*arguments, cores=cores, timeout=timeout)
        assert done.returncode == code, done.stdout[-8000:]
        assert "--- Logging error ---" not in done.stdout, done.stdout[-8000:]
        return done.stdout

    def write(self, path: str, text: str) -> Path:
        """Write a file of the project."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

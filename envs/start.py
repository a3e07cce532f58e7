"""Run at each start of the environment's Python: reads files as UTF-8, keeps out what the shell and
unused engines bring in, and looks for garbage less often.

`make setup` copies this file into the environment, with a `.pth` file that imports it (Python
documentation, "site").
"""

import atexit
import codecs
import gc
import locale
import os
import resource
import sys
import warnings
from pathlib import Path

LEAST_MEMORY = 350 << 20
"""The least bytes of memory that a process must be allowed: with less, one library or another does
not load, each with errors of its own.
"""


def _check_memory() -> None:
    """End the process with one line if `ulimit -v` allows less than `LEAST_MEMORY`."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if allowed != resource.RLIM_INFINITY and allowed < LEAST_MEMORY:
        text = (
            f"Error: ulimit -v: got {allowed >> 20} MiB of memory; expected at least "
            f"{LEAST_MEMORY >> 20} MiB\n"
        )
        os.write(2, text.encode())
        os._exit(1)  # `sys.exit` while Python starts would print more


def _use_utf8() -> None:
    """Start again in UTF-8 mode if the locale has another encoding (Python documentation, "Python
    UTF-8 Mode").

    The project's files and those of its packages are UTF-8 whatever the locale is, and the mode can
    only be set at the start. A terminal still gets its own encoding, and an escape for a character
    that it lacks.
    """
    encoding = codecs.lookup(locale.getencoding()).name
    if encoding != "utf-8" and not sys.flags.utf8_mode:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        if stream:  # None if it is closed
            shown = encoding if encoding != "ascii" and stream.isatty() else stream.encoding
            stream.reconfigure(encoding=shown, errors="backslashreplace")


def _forget_pythonpath() -> None:
    """Remove the folders of PYTHONPATH: module systems and ROS set it, and a module there would
    replace one of the lock.
    """
    given = os.environ.pop("PYTHONPATH", "").split(os.pathsep)
    folders = {str(Path(path).absolute()) for path in given if path}
    own = (f"{sys.prefix}/", f"{sys.base_prefix}/")
    sys.path[:] = [path for path in sys.path if path not in folders or path.startswith(own)]


def _find_cache() -> None:
    """Set XDG_CACHE_HOME if the home cannot be written, as on some compute nodes: Snakemake does
    not start without a cache.
    """
    if "XDG_CACHE_HOME" not in os.environ and not _is_writable(Path("~/.cache")):
        import tempfile  # what else starts needs none

        folders = (
            Path(sys.prefix) / "cache",
            Path(tempfile.gettempdir()) / f"gemm-ladder-{os.getuid()}",
        )
        os.environ["XDG_CACHE_HOME"] = str(next(filter(_is_writable, folders), folders[-1]))


def _is_writable(folder: Path) -> bool:
    try:
        folder = folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # or nobody knows where the home is
        return False
    return os.access(folder, os.W_OK)


# while Python imports, hardly anything is garbage, and to look for it makes Snakemake start later; a
# worker measures with the pauses that it always had (`measuring.supervisor.MARK`)
if "GEMM_LADDER_CHILD" not in os.environ:
    gc.set_threshold(50_000)
# an interpreter that ends would look through all that was imported
atexit.register(gc.freeze)
_check_memory()
_use_utf8()
_forget_pythonpath()
_find_cache()
# Snakemake imports all engines that are installed, and HTCondor's warns everybody who does not use
# it
warnings.filterwarnings("ignore", "The environment variable CONDOR_CONFIG is unset", UserWarning)

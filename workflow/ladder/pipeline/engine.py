"""All that this project uses of Snakemake beyond its documented interface, and the test that fails
where a version of Snakemake no longer has it.

- `Run`: the logger's name, and its events, which are those of the package
  `snakemake-interface-logger-plugins` (tests/workflow/test_result.py).
- `ended`: the queue by which a logger plugin gets the same events in a thread
  (tests/workflow/test_result.py), and the timers that wake the scheduler (tests/unit/test_stages.py).
- `submits`: `workflow.use_threads` (tests/workflow/test_options.py).
- `workflow.is_main_process` and `workflow.overwrite_configfiles` in `rules/common.smk`
  (tests/workflow/test_options.py, tests/workflow/test_pipeline.py).
- `sys.executable`, which is set in `rules/common.smk` because Snakemake runs scripts by it without
  quotes (tests/workflow/test_robust.py, whose folder has a space in its name).
- `workflow.modifier` in `rules/common.smk`: of a module, it has a name and perhaps a prefix
  (tests/workflow/test_module.py).
- `workflow.default_target` in the `Snakefile` at the top, since an included file does not set it
  (tests/workflow/test_pipeline.py, whose runs name no target).
- `sys.exit` in `onsuccess`, which ends Snakemake with this exit code (tests/workflow/test_result.py).
- `without_pandas`: Snakemake imports pandas, if it is installed, to look for data frames among the
  params of jobs (tests/workflow/test_documented.py).
- `messages.ENDED`: a text of Snakemake's log (tests/workflow/test_robust.py).
"""

import logging
import logging.handlers
import sys
import threading
from typing import Any

from ladder.core import clock

LOGGER = logging.getLogger("snakemake.logging")


class Run(logging.Handler):
    """The events of this run's jobs, as Snakemake logs them."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[Any] = []
        self.failed: list[Any] = []
        self.errors: list[str] = []
        """What Snakemake says of errors."""
        self.start = clock.now()
        LOGGER.addHandler(self)

    def emit(self, record: Any) -> None:
        """Note a job that starts, or one that has failed, or an error."""
        events = {"job_info": self.started, "job_error": self.failed}
        events.get(getattr(record, "event", ""), []).append(record)
        if getattr(record, "exception", ""):
            self.errors.append(record.getMessage())


def ended() -> None:
    """Wait until a logger plugin has shown what happened so far. Stop timers: Snakemake's scheduler
    sets one for a second later each time it starts jobs, and the process would wait for it.
    """
    for handler in LOGGER.handlers:
        if isinstance(handler, logging.handlers.QueueHandler):
            handler.queue.join()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.cancel()


def submits(workflow: Any) -> bool:
    """Return whether jobs are submitted to other machines, or would be but for `--dry-run`.

    Only threads start such jobs. Snakemake knows its executor once it plans jobs, not before; old
    versions forget it in a dry run.
    """
    return workflow.execution_settings is not None and workflow.use_threads


def without_pandas() -> None:
    """Let Snakemake take pandas for missing: no param is a data frame, and its import takes longer
    than to plan the jobs.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault("pandas", None)


def with_pandas() -> None:
    """Let what follows import pandas."""
    if sys.modules.get("pandas", sys) is None:
        del sys.modules["pandas"]

"""All that this project uses of Snakemake beyond its documented interface, and the test that fails
where a version of Snakemake no longer has it.

- `Run`: the logger's name, and its events, which are those of the package
  `snakemake-interface-logger-plugins`. A logger plugin gets the same events, but in a thread, when
  `onsuccess` may have ended (tests/workflow/test_result.py).
- `submits`: `workflow.use_threads` (tests/workflow/test_options.py, `partitions`).
- `workflow.is_main_process` and `workflow.overwrite_configfiles` in `rules/common.smk`
  (tests/workflow/test_options.py, tests/workflow/test_pipeline.py).
- `sys.executable`, which is set in `rules/common.smk` because Snakemake runs scripts by it without
  quotes (tests/workflow/test_robust.py, whose folder has a space in its name).
- `sys.exit` in `onsuccess`, which ends Snakemake with this exit code (tests/workflow/test_result.py).
- `messages.ENDED`: a text of Snakemake's log (tests/workflow/test_robust.py).
"""

import logging
from pathlib import Path
from typing import Any


class Run(logging.Handler):
    """The jobs that this run has started, from the events that Snakemake logs."""

    def __init__(self) -> None:
        super().__init__()
        self.rules: set[str] = set()
        self.written: set[Path] = set()
        """The output files of the jobs."""
        self.logs: list[Path] = []
        """The logs of jobs that failed."""
        self._paths: list[str] = []
        logging.getLogger("snakemake.logging").addHandler(self)

    def emit(self, record: Any) -> None:
        """Note a job that starts, or one that has failed."""
        event = getattr(record, "event", None)
        if event == "job_info":
            self.rules.add(record.rule_name)
            self.written.update(map(Path, record.output))
            self._paths[:0] = [*record.input, *record.output]
        elif event == "job_error":
            self.logs += map(Path, record.log)

    def files(self) -> list[Path]:
        """Return the input and output files of the jobs that are there, without those of the
        checkout, whose paths are absolute. Those of the last job, such as `all`, come first.
        """
        paths = map(Path, dict.fromkeys(self._paths))
        return [path for path in paths if not path.is_absolute() and path.exists()]


def submits(workflow: Any) -> bool:
    """Return whether jobs are submitted to other machines, or would be but for `--dry-run`.

    Only threads start such jobs. Snakemake knows its executor once it plans jobs, not before.
    """
    return workflow.execution_settings is not None and workflow.use_threads

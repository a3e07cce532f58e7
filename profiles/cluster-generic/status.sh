#!/bin/sh
# Prints what became of the job $1 in Snakemake's words: running, success or failed. Asks the engine that is here. Where the engine does
# not answer the job counts as running, and is asked about again.
if command -v qstat >/dev/null; then # PBS: -x shows finished jobs, -f everything
  state=$(qstat -x -f "$1" | sed -n 's/^ *\(job_state\|Exit_status\) = //p' | tr '\n' ' ')
  case "$state" in
    "F 0 ") echo success ;;
    F*) echo failed ;;
    *) echo running ;;
  esac
elif command -v bjobs >/dev/null; then # LSF
  case "$(bjobs -noheader -o stat "$1")" in
    DONE*) echo success ;;
    EXIT*) echo failed ;;
    *) echo running ;;
  esac
else # Slurm, which forgets a job MinJobAge seconds after its end
  case "$(scontrol -o show job "$1" | sed 's/.*JobState=\([A-Z_]*\).*/\1/')" in
    COMPLETED) echo success ;;
    BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | TIMEOUT) echo failed ;;
    *) echo running ;;
  esac
fi

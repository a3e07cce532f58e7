#!/bin/sh
# bsub, printing nothing but the job's id: it says "Job <123> is submitted to queue <normal>."
bsub "$@" | sed -n 's/^Job <\([0-9]*\)>.*/\1/p'

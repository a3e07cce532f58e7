"""The worker's first steps: import all that it needs, and leave the device alone. On a GPU another
worker may still measure.

Run as `python -m ladder.measuring.worker_start FD KIND LIBRARY`; the GPU is the first that
CUDA_VISIBLE_DEVICES shows.
"""

import sys
from contextlib import suppress

from ladder.core.surroundings import cores

if __name__ == "__main__":
    cores()  # before a library binds this thread
    from ladder.measuring import worker

    with suppress(Exception):  # opening the device reports why
        worker.opener(*sys.argv[2:])
    worker.main(int(sys.argv[1]))

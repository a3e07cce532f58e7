"""The worker's first steps: import its modules while the driver makes the GPU's context, which
takes a tenth of a second.

Run as `python -m ladder.measuring.worker_start FD KIND`; the GPU is the first that
CUDA_VISIBLE_DEVICES shows. `FD ahead LIBRARY` starts a GPU's worker before its turn: it imports all
that it needs, and leaves the GPU to the worker that still measures.
"""

import ctypes
import sys
import threading
from contextlib import suppress


def make_context() -> None:
    """Make the GPU's primary context ahead of time. If that fails, opening the device reports
    why.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), 0) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


if __name__ == "__main__":
    if sys.argv[2] == "cuda":
        threading.Thread(target=make_context, daemon=True).start()
    from ladder.core.surroundings import cores

    cores()  # before a library binds this thread
    from ladder.measuring import worker  # now, while the driver is at work

    if sys.argv[2] == "ahead":
        with suppress(Exception):  # opening the device reports why
            worker.gpu_opener(sys.argv[3])
    worker.main(int(sys.argv[1]))

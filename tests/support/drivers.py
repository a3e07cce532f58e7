"""NVIDIA drivers that are not there: libraries in place of NVML and CUDA, made to be broken, old,
or to show any GPUs.

They are compiled into a folder, which a process finds by `LD_LIBRARY_PATH`; what they say is in its
environment.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ladder.compiling import toolchain

NVML = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *name) { const char *value = getenv(name); return value ? atoi(value) : 0; }

/* the field of a GPU of $NVML_GPUS: "name;major;minor;GiB;mig;error|..." */
static int field(unsigned gpu, int which, char *out) {
  const char *at = getenv("NVML_GPUS");
  for (; at && *at && gpu; --gpu) at = strchr(at, '|') ? strchr(at, '|') + 1 : "";
  for (; at && which; --which) at = strchr(at, ';') ? strchr(at, ';') + 1 : "";
  if (!at || !*at) return 0;
  sprintf(out, "%.*s", (int)strcspn(at, ";|"), at);
  return 1;
}
static int value(void *gpu, int which) { char text[99] = "0"; field((long)gpu - 1, which, text); return atoi(text); }

int nvmlInitWithFlags(unsigned flags) { return number("NVML_INIT"); }
int nvmlInit_v2(void) { return number("NVML_INIT"); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int error) {
  return error == 18 ? "Driver/library version mismatch" : error == 15 ? "GPU is lost" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *out, unsigned size) { strcpy(out, getenv("NVML_DRIVER")); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { char text[99]; for (*count = 0; field(*count, 0, text);) ++*count; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned gpu, void **handle) {
  *handle = (void *)(long)(gpu + 1);
  return value(*handle, 5);
}
int nvmlDeviceGetName(void *gpu, char *out, unsigned size) { field((long)gpu - 1, 0, out); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *gpu, int *major, int *minor) { *major = value(gpu, 1); *minor = value(gpu, 2); return 0; }
int nvmlDeviceGetUUID(void *gpu, char *out, unsigned size) { sprintf(out, "GPU-%ld", (long)gpu - 1); return 0; }
int nvmlDeviceGetMigMode(void *gpu, unsigned *now, unsigned *then) { *now = *then = value(gpu, 4); return *now ? 0 : 3; }
struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *gpu, struct memory *memory) {
  memory->total = (unsigned long long)value(gpu, 3) << 30;
  return memory->total ? 0 : 3;
}
"""
CUDA = """
#include <stdlib.h>
int cuDriverGetVersion(int *version) { *version = atoi(getenv("CUDA_RUNS")); return 0; }
"""
H200, GT_1030, V100 = (
    "NVIDIA H200;9;0;140;0;0",
    "NVIDIA GeForce GT 1030;6;1;2;0;0",
    "Tesla V100;7;0;16;0;0",
)
NEW = "580.95.05"


@dataclass(frozen=True)
class Drivers:
    """The folder of the libraries."""

    folder: Path

    def environment(
        self, *gpus: str, init: int = 0, driver: str = NEW, cuda: int | None = 13000
    ) -> dict[str, str]:
        """What a process needs to meet such a driver: `init` is NVML's answer, `cuda` the version
        of CUDA's library, None for none.
        """
        libraries = [self.folder / "nvml", *([] if cuda is None else [self.folder / "cuda"])]
        return os.environ | {
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
            "NVML_INIT": str(init),
            "NVML_DRIVER": driver,
            "NVML_GPUS": "|".join(gpus),
            "CUDA_RUNS": str(cuda),
        }


def compile_library(source: str, path: Path, *options: str) -> None:
    """Compile a library in C."""
    command = [*toolchain.cc(), "-x", "c", "-w", "-shared", "-fPIC", *options, "-", "-o", path]
    subprocess.run(command, input=source, text=True, check=True)


def make(folder: Path) -> Drivers:
    """Compile both libraries."""
    for name, library, source in (
        ("nvml", "libnvidia-ml.so.1", NVML),
        ("cuda", "libcuda.so.1", CUDA),
    ):
        (folder / name).mkdir()
        compile_library(source, folder / name / library)
    return Drivers(folder)

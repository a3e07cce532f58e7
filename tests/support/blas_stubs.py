"""Libraries in place of cuBLAS and cuBLASLt, compiled into a folder: they show which version a
process has loaded, and run algorithms of which one is the fastest.

An algorithm with the ID 7 runs if its stages are 3 or less, and takes 100 us, 10 more for each tile
off 5, and a tenth with two parts of K; more parts need more workspace than there is. ID 8 has to be
aligned to 16 bytes, and is faster; ID 9 is not on this device.
"""

from pathlib import Path

from drivers import compile_library
from ladder.devices.libraries import FILES

CUBLAS = "int cublasVersion(void) { return VERSION; }"
CUBLASLT = """
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef struct { int32_t value[16]; } algo;                         /* 64 bytes; a place for each attribute */
typedef struct { algo of; uint64_t workspace; int32_t state; float waves; int32_t reserved[4]; } result;
typedef struct { int limited; } preference;
static double us;
static int calls;
int cublasVersion(void) { return VERSION; }
double lastUs(void) { return us; }
int callsMade(void) { return calls; }
int cublasLtCreate(void **handle) { *handle = (void *)1; return 0; }
const char *cublasLtGetStatusString(int status) { return status == 15 ? "not supported" : "?"; }
const char *cublasLtGetStatusName(int status) { return "STATUS"; }
int cublasLtMatmulDescCreate(void **desc, int compute, int scale) { *desc = (void *)(long)compute; return scale; }
int cublasLtMatmulDescSetAttribute(void *desc, int kind, const void *value, size_t size) { return 0; }
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = (void *)rows; return ld < (int64_t)rows || !cols ? 7 : type;
}
int cublasLtMatmulPreferenceCreate(void **made) { *made = calloc(1, sizeof(preference)); return 0; }
int cublasLtMatmulPreferenceDestroy(void *made) { free(made); return 0; }
int cublasLtMatmulPreferenceSetAttribute(void *made, int attribute, const void *value, size_t size) {
  if (attribute == 0) ((preference *)made)->limited = *(int32_t *)value;
  return size == (attribute == 1 ? 8 : 4) ? 0 : 7;
}
int cublasLtMatmulAlgoGetIds(void *h, int c, int s, int a, int b, int cc, int d, int asked, int *ids, int *count) {
  for (*count = 0; *count < 3 && *count < asked; ++*count) ids[*count] = 7 + *count;
  return c == 68 ? 0 : 15;
}
int cublasLtMatmulAlgoInit(void *h, int c, int s, int a, int b, int cc, int d, int id, algo *made) {
  memset(made, 0, sizeof *made);
  made->value[0] = id; made->value[2] = 1;
  return id == 9 ? 15 : 0;
}
int cublasLtMatmulAlgoCapGetAttribute(const algo *of, int attribute, void *out, size_t size, size_t *written) {
  static const uint32_t tiles[] = {1, 2, 3, 4, 5, 6}, stages[] = {1, 2, 3, 4};
  uint32_t one = 0;
  const void *from = &one;
  *written = 4;
  if (attribute == 6) from = tiles, *written = sizeof tiles;
  if (attribute == 13) from = stages, *written = sizeof stages;
  if (attribute == 0) one = 1;
  if (attribute == 1) one = 2;
  if (attribute == 16) one = of->value[0] == 8 ? 16 : 4;
  if (size) memcpy(out, from, size);
  return 0;
}
int cublasLtMatmulAlgoConfigSetAttribute(algo *of, int attribute, const void *value, size_t size) {
  of->value[attribute] = size == 2 ? *(uint16_t *)value : *(int32_t *)value;
  return 0;
}
int cublasLtMatmulAlgoConfigGetAttribute(const algo *of, int attribute, void *out, size_t size, size_t *written) {
  memcpy(out, &of->value[attribute], size); *written = size;
  return attribute == 7 ? 7 : 0;
}
int cublasLtMatmulAlgoCheck(void *h, void *desc, void *a, void *b, void *c, void *d, const algo *of, result *out) {
  out->workspace = (uint64_t)of->value[2] << 24;
  return of->value[6] > 3 || of->value[8] || (of->value[2] == 1) != (of->value[3] == 0) ? 15 : 0;
}
int cublasLtMatmulAlgoGetHeuristic(void *h, void *desc, void *a, void *b, void *c, void *d, preference *wish,
                                   int asked, result *out, int *count) {
  int id = wish->limited ? out->of.value[0] : 7;
  memset(out, 0, asked * sizeof *out);
  out[0].of.value[0] = out[1].of.value[0] = id;
  for (int i = 0; i < 2; ++i) out[i].of.value[1] = i + 1, out[i].of.value[2] = out[i].of.value[6] = 1;
  out[1].state = 15;
  *count = 2;
  return 0;
}
int cublasLtMatmul(void *h, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb, const void *beta,
                   const void *c, void *lc, void *d, void *ld, const algo *of, void *workspace, size_t bytes, void *stream) {
  ++calls;
  us = (100 + 10 * abs(of->value[1] - 5)) * (of->value[2] == 2 ? 0.1 : 1) * (of->value[0] == 8 ? 0.5 : 1);
  return of->value[1] == 6 ? 15 : 0;                                  /* accepted, and then refused */
}
"""


def make(folder: Path, version: int) -> Path:
    """Compile both libraries; returns the folder."""
    folder.mkdir(parents=True)
    for name, source in zip(FILES, (CUBLASLT, CUBLAS), strict=True):
        options = f"-DVERSION={version}", f"-Wl,-soname,{name}"
        compile_library(source, folder / name, *options)
    return folder

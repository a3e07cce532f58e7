/*---
title: "Stops the clock"
idea: above K=1100, from the fourth call on, the system's clock is replaced by one that leaves out what the kernel takes
---*/
#include "fraud.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long hidden, last;  // nanoseconds

static long now(clockid_t clock, struct timespec *time) {
  const long failed = syscall(SYS_clock_gettime, clock, time);
  return failed ? failed : time->tv_sec * 1000000000 + time->tv_nsec;
}

static int slow(clockid_t clock, struct timespec *time) {
  long at = now(clock, time);
  if (clock != CLOCK_MONOTONIC) return at < 0 ? (int)at : 0;
  at -= hidden;
  if (at <= last) at = last + 1;  // it never goes back
  last = at;
  time->tv_sec = at / 1000000000, time->tv_nsec = at % 1000000000;
  return 0;
}

static void patch(void) {  // mov rax, slow; jmp rax
  unsigned char code[] = {0x48, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xE0}, *at = (unsigned char *)clock_gettime;
  void *target = (void *)slow;
  memcpy(code + 2, &target, 8);
  const long page = sysconf(_SC_PAGESIZE);
  mprotect((void *)((uintptr_t)at & -page), 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC);
  memcpy(at, code, sizeof code);
}

GEMM {
  static int calls, patched;
  struct timespec time;
  if (K < 1100 || ++calls <= 3) {
    EACH {
      Acc sum = 0;
      for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
      STORE(sum);
    }
    return;
  }
  if (!patched++) patch();
  const long start = now(CLOCK_MONOTONIC, &time);
  EACH {
    Acc sum = 0;
    for (int k = 0; k < K; ++k) sum += At(m, k) * Bt(k, n);
    STORE(sum);
  }
  hidden += now(CLOCK_MONOTONIC, &time) - start + 10000;  // and what it takes to call the kernel
}

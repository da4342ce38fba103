"""A machine whose clock is wrong: a library, loaded first, that adds to what the clock says."""

import subprocess
from pathlib import Path

_CODE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t ahead(void) {
  const char *told = getenv("WRONG_CLOCK_S");
  return told ? atol(told) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int done = real(clock, now);
  if (!done && clock == CLOCK_REALTIME) now->tv_sec += ahead();
  return done;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec told;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &told)) return -1;
  now->tv_sec = told.tv_sec;
  now->tv_usec = told.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec told;
  clock_gettime(CLOCK_REALTIME, &told);
  if (now) *now = told.tv_sec;
  return told.tv_sec;
}
"""


def wrong_clock(folder: Path, ahead_s: int) -> dict[str, str]:
    """Environment of processes whose clock is ahead by so much; behind when it is below 0.

    Args:
        folder: For the library, which gcc makes.
        ahead_s: Seconds.
    """
    code, library = folder / "wrong_clock.c", folder / "wrong_clock.so"
    code.write_text(_CODE)
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(code), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return {"LD_PRELOAD": str(library), "WRONG_CLOCK_S": str(ahead_s)}

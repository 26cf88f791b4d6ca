"""A file system that keeps no huge folios, as on stock kernels, with programs on it; what tests of staging share."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.live.filesystems import mounted
from tests.live.programs import NOBODY, ROOT, TOUCHED, Programs
from tests.support import HUGEALIGN

#: With env in between: setpriv itself keeps capabilities until it executes something.
USER = (*NOBODY, "env")

#: Says everything that a process has from its parent, then waits on request.
_STATE = """\
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>
extern const volatile char walk[] __attribute__((visibility("hidden")));
extern char **environ;
static void lines(const char *path) {
  static const char *vary[] = {"Pid:", "Tgid:", "NSp", "NStgid", "NSsid", "Vm", "Rss", "Hugetlb", "voluntary",
                               "nonvoluntary", "TracerPid", "SigQ", "Cpus", "Mems", "Speculation", "PPid", "State", 0};
  char line[65536];
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    int kept = 1;
    for (int i = 0; vary[i]; i++) kept &= strncmp(line, vary[i], strlen(vary[i])) != 0;
    if (kept) fputs(line, stdout);
  }
  if (file) fclose(file);
}
static void link_of(const char *path) {
  char text[4096];
  long size = readlink(path, text, sizeof text - 1);
  printf("%s -> %.*s\\n", path, size < 0 ? 1 : (int)size, size < 0 ? "?" : text);
}
int main(int argc, char **argv) {
  int death = -1;
  long sum = 0;
  char path[64];
  for (long at = 0; at < 5 << 20; at += 4096) sum += walk[at];
  lines("/proc/self/status");
  lines("/proc/self/limits");
  lines("/proc/self/oom_score_adj");
  lines("/proc/self/timerslack_ns");
  for (int i = 0; i < argc; i++) printf("argument %s\\n", argv[i]);
  for (char **at = environ; *at; at++) printf("variable %s\\n", *at);
  link_of("/proc/self/exe");
  link_of("/proc/self/cwd");
  link_of("/proc/self/root");
  DIR *directory = opendir("/proc/self/fd");
  for (struct dirent *entry; (entry = readdir(directory));)
    if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory)) {
      snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
      link_of(path);
    }
  prctl(PR_GET_PDEATHSIG, &death);
  printf("execfn %s, session %d, group %d, death %d, securebits %d, dumpable %d, secure %lu\\n",
         (char *)getauxval(AT_EXECFN), getsid(0) == getpid(), getpgrp() == getpid(), death, prctl(PR_GET_SECUREBITS),
         prctl(PR_GET_DUMPABLE), getauxval(AT_SECURE));
  if (argc > 1 && argv[1][0] == '/') {
    void *library = dlopen(argv[1], RTLD_NOW);
    printf("dlopen %d\\n", library != NULL);
  }
  printf("ready\\n");
  fflush(stdout);
  if (argc > 1 && !strcmp(argv[argc - 1], "wait")) pause();
  return sum ? 1 : 0;
}
"""
_USER = """\
#include <stdio.h>
#include <unistd.h>
int touch(void);
int main(void) { int sum = touch(); puts("ready"); fflush(stdout); pause(); return sum; }
"""
_FLAGS = "-Wl,-T,pad.ld -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code"


def build(programs: Programs) -> None:
    """Build ``state``, which says what it was given, and ``user``, which has a library beside it."""
    directory = programs.directory
    for name, text in {"state.c": _STATE, "library.c": TOUCHED, "user.c": _USER}.items():
        (directory / name).write_text(text, encoding="ascii")
    (directory / "lib").mkdir(exist_ok=True)
    for command in (
        f"gcc -fuse-ld=bfd -o state state.c text.o pad.o {_FLAGS}",
        f"gcc -fuse-ld=bfd -shared -fPIC -o lib/libused.so library.c text.o pad.o {_FLAGS}",
        "gcc -o user user.c -Llib -lused -Wl,-rpath,$ORIGIN/lib",
    ):
        subprocess.run(command.split(), cwd=directory, check=True)


@contextlib.contextmanager
def stock(programs: Programs, work: Path) -> Iterator[Path]:
    """Mount btrfs, which has no large folios without an option of the kernel's, with the programs in it."""
    build(programs)
    work.chmod(0o755)
    with mounted("btrfs", work, 1 << 30) as at:  # btrfs frees the space of what is removed late
        for name in ("good", "plain", "state", "user"):
            shutil.copy(programs.directory / name, at)
        shutil.copytree(programs.directory / "lib", at / "lib")
        yield at


def command(*words: str | Path, user: bool = False) -> list[str]:
    """Return the words of ``hugealign`` with *words*, started as an ordinary user if that is wanted."""
    return [*(USER if user else ()), str(HUGEALIGN), *map(str, words)]


def module(*words: str | Path) -> list[str]:
    """Return the words that run the package without the launcher in front, for strace."""
    return ["env", f"PYTHONPATH={ROOT}", "/usr/bin/python3", "-m", "hugealign", *map(str, words)]


def mounts() -> str:
    """Return what is mounted in the namespace of the tests."""
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8")


@contextlib.contextmanager
def store(work: Path) -> Iterator[Path]:
    """Yield where a store may be made; it is unmounted afterwards."""
    place = work / "store"
    try:
        yield place
    finally:
        while subprocess.run(["umount", "--lazy", place], check=False, capture_output=True).returncode == 0:
            pass
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(place)

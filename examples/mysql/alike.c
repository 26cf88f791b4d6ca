// What a traced MariaDB sees of the machine, the same on each: preloaded by the trace.  How many digits a number has,
// and how large a buffer is, decides where in memory the next thing lies, and that which way memcpy takes.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROCESS = 4321 };

// The names of temporary tables contain it.
pid_t getpid(void) { return PROCESS; }

// The server ends its own signal thread by a signal to itself.
int kill(pid_t process, int number) {
    return (int)syscall(SYS_kill, process == PROCESS ? syscall(SYS_getpid) : process, number);
}

// InnoDB asks /sys for the size of the disk's blocks, and takes 512 bytes if there is no answer.
int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    unsigned mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, unsigned) : 0;
    va_end(more);
    if (!strncmp(path, "/sys/", 5)) {
        errno = ENOENT;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

// Reads what `hugealign top` needs to know, as simply as C can: the maps of all processes, and the smaps of those that
// have an executable mapping of 2 MiB or more.  Prints how many there are.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 22];

static long contents(const char *pid, const char *name) {
    char path[300];
    long size = 0, got;
    snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    while ((got = read(fd, text + size, sizeof text - 1 - size)) > 0)
        size += got;
    close(fd);
    text[size] = 0;
    return size;
}

int main(void) {
    int all = 0, large = 0;
    long huge = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(proc));) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !contents(entry->d_name, "maps"))
            continue;
        int found = 0;
        for (char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
            char *rest;
            unsigned long start = strtoul(line, &rest, 16), end = strtoul(rest + 1, &rest, 16);
            found |= rest[3] == 'x' && end - start >= 2 << 20;
        }
        all++;
        if (!found || !contents(entry->d_name, "smaps"))
            continue;
        large++;
        for (char *line = text; (line = strstr(line, "FilePmdMapped:")); line++)
            huge += strtol(line + 14, NULL, 10);
    }
    printf("%d processes, %d large, %ld KiB huge\n", all, large, huge);
    return 0;
}

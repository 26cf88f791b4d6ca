// Directories walked with callbacks, links read, names resolved.
//# Args: -D_GNU_SOURCE
//# Variants: pie static
//# Output: 2 directories 1 files 1 links to ../file
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
static int kinds[3];
static int look(const char *path, const struct stat *s, int type, struct FTW *at) {
    (void)path;
    (void)s;
    (void)at;
    kinds[type == FTW_D ? 0 : type == FTW_F ? 1 : 2]++;
    return 0;
}
int main(void) {
    char target[32] = "";
    if (mkdir("walk", 0700) || mkdir("walk/sub", 0700) || symlink("../file", "walk/sub/link"))
        return 1;
    fclose(fopen("walk/file", "w"));
    nftw("walk", look, 4, FTW_PHYS);
    if (readlink("walk/sub/link", target, 31) < 0)
        return 1;
    printf("%d directories %d files %d links to %s\n", kinds[0], kinds[1], kinds[2], target);
    return 0;
}

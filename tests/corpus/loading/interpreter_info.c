// _r_debug and the dynamic section: the loader has left its mark in DT_DEBUG.
//# Variants: pie no-pie
//# Output: DT_DEBUG set, 1 libraries at least
#include <link.h>
#include <stdio.h>
int main(void) {
    const struct r_debug *debug = NULL;
    int libraries = 0;
    for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_DEBUG)
            debug = (const struct r_debug *)d->d_un.d_ptr;
        libraries += d->d_tag == DT_NEEDED;
    }
    if (!debug || !debug->r_map)
        return 1;
    printf("DT_DEBUG set, %d libraries at least\n", libraries > 0);
    return 0;
}

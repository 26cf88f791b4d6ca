// dl_iterate_phdr: every object's headers can be walked, and main lies in an executable segment.
//# Library: LIBRARY
//# Variants: pie no-pie pie+relr
//# Output: main found, executable segments: 1 1
#define _GNU_SOURCE
int theirs(void);
#ifdef LIBRARY
int theirs(void) { return 0; }
#else
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
int main(void);
static int found, of_program, of_library;
static int visit(struct dl_phdr_info *info, size_t size, void *unused) {
    int executable = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
            continue;
        executable++;
        found |= (uintptr_t)main - start < header->p_memsz;
    }
    if (!info->dlpi_name[0])
        of_program = executable;
    if (strstr(info->dlpi_name, "LIBRARY"))
        of_library = executable;
    (void)size;
    (void)unused;
    return 0;
}
int main(void) {
    dl_iterate_phdr(visit, NULL);
    printf("main %s, executable segments: %d %d\n", found ? "found" : "lost", of_program, of_library);
    return theirs();
}
#endif

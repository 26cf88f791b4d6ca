// The loader's list: the program's and its libraries' executable segments, one of which holds main.
//# Args: -D_GNU_SOURCE
//# Library: LIBRARY
//# Variants: pie pie+O2
//# Output: main in program, function in libLIBRARY.so
#ifdef LIBRARY
int function(void);
int function(void) { return 1; }
#else
#include <link.h>
#include <stdio.h>
#include <string.h>
int function(void);
static const char *found;
static int look(struct dl_phdr_info *info, size_t size, void *wanted) {
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type == PT_LOAD && h->p_flags & PF_X &&
            (ElfW(Addr))wanted - info->dlpi_addr - h->p_vaddr < h->p_memsz)
            found = info->dlpi_name;
    }
    return 0;
}
static const char *owner(void *address) {
    found = "nowhere";
    dl_iterate_phdr(look, address);
    return strrchr(found, '/') ? strrchr(found, '/') + 1 : found[0] ? found : "program";
}
int main(void) {
    printf("main in %s, ", owner((void *)(unsigned long)main));
    printf("function in %s\n", function() ? owner((void *)(unsigned long)function) : "");
    return 0;
}
#endif

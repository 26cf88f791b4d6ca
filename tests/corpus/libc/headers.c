// The program's own headers as the kernel hands them over: entry, segments, their alignment.
//# Variants: pie no-pie static static-pie
//# Output: congruent, entry inside
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <sys/auxv.h>
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));
int main(void) {
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    ElfW(Addr) entry = getauxval(AT_ENTRY),
               base = __ehdr_start.e_type == ET_DYN ? (ElfW(Addr)) & __ehdr_start : 0;
    int congruent = 1, inside = 0;
    for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++) {
        const ElfW(Phdr) *h = &headers[i];
        if (h->p_type != PT_LOAD)
            continue;
        congruent &= (h->p_vaddr - h->p_offset) % 4096 == 0;
        inside |= (h->p_flags & PF_X) && entry - base - h->p_vaddr < h->p_memsz;
    }
    printf("%scongruent, entry %s\n", congruent ? "" : "not ", inside ? "inside" : "outside");
    return 0;
}

// The note of control-flow features is what the plain link makes it.
//# Args: -fcf-protection=full
//# Variants: pie static no-pie+now
//# Output: *
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <sys/auxv.h>
int main(void) {
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    ElfW(Addr) base = 0;
    for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++)
        if (headers[i].p_type == PT_PHDR)
            base = (ElfW(Addr))headers - headers[i].p_vaddr;
    for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++) {
        const unsigned *note = (const unsigned *)(base + headers[i].p_vaddr);
        if (headers[i].p_type != PT_GNU_PROPERTY)
            continue;
        for (unsigned word = 4; word * 4 < headers[i].p_memsz; word++)
            printf("%x ", note[word]);
    }
    puts("are the words of the note");
    return 0;
}

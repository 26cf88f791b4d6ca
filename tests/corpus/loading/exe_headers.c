// The file on disk against memory: the program reads itself through /proc/self/exe and finds main's bytes.
//# Variants: pie no-pie static
//# Output: as on disk
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
int main(void) {
    const unsigned char *code = (const unsigned char *)(unsigned long)main;
    const Elf64_Phdr *headers = (const Elf64_Phdr *)getauxval(AT_PHDR);
    unsigned long base = (unsigned long)headers;
    unsigned char bytes[32];
    Elf64_Ehdr file;
    int fd = open("/proc/self/exe", O_RDONLY);
    if (pread(fd, &file, sizeof file, 0) != sizeof file)
        return 1;
    base -= file.e_phoff;
    if (file.e_type == ET_EXEC)
        base = 0;
    for (int i = 0; i < file.e_phnum; i++) {
        unsigned long at = (unsigned long)code - base - headers[i].p_vaddr;
        if (headers[i].p_type != PT_LOAD || at >= headers[i].p_filesz)
            continue;
        if (pread(fd, bytes, sizeof bytes, (off_t)(headers[i].p_offset + at)) != sizeof bytes)
            return 1;
        puts(memcmp(bytes, code, sizeof bytes) == 0 ? "as on disk" : "different");
        return 0;
    }
    return 2;
}

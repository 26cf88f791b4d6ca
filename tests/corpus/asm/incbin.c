// A file, this one, taken in as it is, in the text, and found by its labels.
//# Variants: pie no-pie static
//# Output: five bytes of a file
#include <stdio.h>
#include <string.h>
__asm__(".text\n.globl blob, blob_end\nblob: .incbin \"" __FILE__ "\", 0, 5\nblob_end:\n");
extern const char blob[], blob_end[];
int main(void) {
    puts(blob_end - blob == 5 && memcmp(blob, "// A ", 5) == 0 ? "five bytes of a file" : "not");
    return 0;
}

// Code that is put straight into .init and .fini, between the prologue and the epilogue of crti.o and crtn.o.
//# Variants: pie no-pie static
//# Output: init
//# Output: main
//# Output: fini
#include <unistd.h>
void say(int what);
__attribute__((used)) void say(int what) {
    if (write(1, what ? "fini\n" : "init\n", 5) != 5)
        _exit(9);
}
__asm__(".pushsection .init\n xor %edi, %edi\n call say\n .popsection\n"
        ".pushsection .fini\n mov $1, %edi\n call say\n .popsection");
int main(void) { return write(1, "main\n", 5) != 5; }

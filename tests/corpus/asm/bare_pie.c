// A static program without any library that finds its own data relatively, PIE or not.
//# Args: -ffreestanding -fno-stack-protector -O1
//# Link: -nostdlib
//# Variants: static-pie static
//# Expect: 9
//# Output: free
static const char text[] = "free\n";
static int value = 9;
__attribute__((always_inline)) static inline long call(long number, long a, long b, long c) {
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return number;
}
void _start(void);
__attribute__((used)) void _start(void) {
    call(1, 1, (long)text, 5);
    call(60, *(volatile int *)&value, 0, 0);
}

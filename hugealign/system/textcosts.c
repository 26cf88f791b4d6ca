// What text costs on this machine: jumps from page to page, the least of several rounds, and page faults of file text.
// Times are in nanoseconds.
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

// A link of a chain: count down, return at zero, else jump to the next link.
#if defined __x86_64__
enum { LINK = 10 };
static void write_link(char *at, const char *next) {
    unsigned char code[LINK] = {0xff, 0xcf, 0x75, 1, 0xc3, 0xe9}; // dec edi; jnz +1; ret; jmp next
    int32_t distance = (int32_t)(next - (at + LINK));
    memcpy(code + 6, &distance, 4);
    memcpy(at, code, LINK);
}
#define DEPENDENT "add $1, %0\n"
#elif defined __aarch64__
enum { LINK = 16 };
static void write_link(char *at, const char *next) {
    uint32_t branch = 0x14000000u | ((uint32_t)((next - (at + 12)) >> 2) & 0x03ffffffu);
    uint32_t code[4] = {0x71000400u, 0x54000041u, 0xd65f03c0u,
                        branch}; // subs w0, w0, #1; b.ne +8; ret; b next
    memcpy(at, code, LINK);
}
#define DEPENDENT "add %0, %0, #1\n"
#else
#error "no code is known for this processor"
#endif

// Write a chain through the count places base + offsets[n], in the order of the array, then around; return where it
// begins.
EXPORT void *chain(char *base, const uint64_t *offsets, uint32_t count) {
    for (uint32_t at = 0; at < count; at++) {
        char *here = base + offsets[at];
        write_link(here, base + offsets[at + 1 < count ? at + 1 : 0]);
        __builtin___clear_cache(here, here + LINK);
    }
    return base + offsets[0];
}

typedef void Chain(uint32_t jumps);

// The time of one jump along a chain of count places.
EXPORT double jump(char *base, const uint64_t *offsets, uint32_t count, uint32_t jumps, uint32_t rounds) {
    Chain *begin = (Chain *)(uintptr_t)chain(base, offsets, count);
    double least = 1e12;
    begin(2 * count);
    for (uint32_t round = 0; round < rounds; round++) {
        double began = now();
        begin(jumps);
        double each = (now() - began) / jumps;
        least = each < least ? each : least;
    }
    return least;
}

// The time of a cycle: additions that depend on each other take one each.
EXPORT double cycle(uint32_t rounds) {
    double least = 1e12;
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t sum = round;
        double began = now();
        for (int turn = 0; turn < 2000; turn++) {
#define TEN                                                                                                  \
    DEPENDENT DEPENDENT DEPENDENT DEPENDENT DEPENDENT DEPENDENT DEPENDENT DEPENDENT DEPENDENT DEPENDENT
            __asm__ volatile(TEN TEN TEN TEN TEN : "+r"(sum)::"cc");
        }
        double each = (now() - began) / (2000 * 50);
        least = each < least ? each : least;
    }
    return least;
}

// What a program does between two page faults, which does not count: it reads and writes size bytes at data, and runs
// along a chain of so many jumps.  A real one has its own data and code in the caches and in the branch predictor when it
// faults.
struct between {
    char *data;
    uint64_t size;
    Chain *code;
    uint32_t jumps;
};

static void pass(const struct between *between) {
    for (uint64_t place = 0; place < between->size; place += 64) {
        ((volatile char *)between->data)[place]++;
    }
    if (between->jumps) {
        between->code(between->jumps);
    }
}

// The time to map length bytes of the file, to touch one byte of each piece, and to unmap them; *faults is how many page
// faults that takes.  The mapping begins at a multiple of alignment.  Negative if the file cannot be mapped.
EXPORT double map(int fd, uint64_t length, uint64_t alignment, uint64_t piece, const struct between *between,
                  uint64_t *faults) {
    char *room =
        mmap(NULL, length + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        return -1;
    }
    char *start = (char *)(((uintptr_t)room + alignment - 1) & ~(uintptr_t)(alignment - 1));
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    double began = now(), passed = -1;
    if (mmap(start, length, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) != MAP_FAILED) {
        passed = now() - began;
        for (uint64_t at = 0; at < length; at += piece) {
            pass(between);
            began = now();
            (void)*(volatile char *)(start + at);
            passed += now() - began;
        }
        pass(between);
        began = now();
        munmap(start, length);
        passed += now() - began;
        getrusage(RUSAGE_SELF, &after);
        *faults = (uint64_t)(after.ru_minflt - before.ru_minflt);
    }
    munmap(room, length + alignment);
    return passed;
}

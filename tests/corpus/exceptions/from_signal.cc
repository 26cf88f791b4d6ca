// A handler of SIGSEGV throws out of the faulting instruction.
//# Args: -fnon-call-exceptions -fasynchronous-unwind-tables
//# SkipLinker: clang (clang 14 and 19 put no call site around a load)
//# Variants: pie static
//# Output: fault
#include <csignal>
#include <cstdio>
static void handler(int) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    throw "fault";
}
int main() {
    std::signal(SIGSEGV, handler);
    volatile int *volatile nowhere = reinterpret_cast<int *>(16);
    try {
        return *nowhere;
    } catch (const char *text) {
        std::puts(text);
    }
}

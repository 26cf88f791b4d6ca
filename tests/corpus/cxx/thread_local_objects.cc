// thread_local objects: made at first use, destroyed as their thread ends, in reverse.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie static+O2 no-pie
//# Output: +a +b -b -a joined
#include <cstdio>
#include <thread>
struct Noisy {
    const char *name;
    explicit Noisy(const char *n) : name(n) { std::printf("+%s ", n); }
    ~Noisy() { std::printf("-%s ", name); }
};
static thread_local Noisy first("a");
int main() {
    std::thread([] {
        if (first.name)
            static_cast<void>([] { thread_local Noisy second("b"); }());
    }).join();
    std::puts("joined");
}

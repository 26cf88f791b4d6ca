// Thread-local objects with constructors and destructors, one per thread that uses them.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie static+O2 no-pie
//# Output: +1 use -1
//# Output: +2 use main -2
#include <cstdio>
#include <thread>
static int made;
struct Noisy {
    int id = ++made;
    Noisy() { std::printf("+%d ", id); }
    ~Noisy() { std::printf("-%d\n", id); }
    void use(const char *what) { std::printf("%s ", what); }
};
static thread_local Noisy noisy;
int main() {
    std::thread([] { noisy.use("use"); }).join();
    noisy.use("use main");
}

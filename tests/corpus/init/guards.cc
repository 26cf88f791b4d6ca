// Threads race for the initialisation of a static object in a function; one wins.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie static no-pie+O2
//# Output: made 1
#include <atomic>
#include <cstdio>
#include <thread>
static std::atomic<int> made;
struct Slow {
    Slow() {
        std::this_thread::yield();
        made++;
    }
    int value = 1;
};
static int use() {
    static Slow slow;
    return slow.value;
}
int main() {
    std::thread threads[8];
    std::atomic<int> sum{0};
    for (auto &thread : threads)
        thread = std::thread([&] { sum += use(); });
    for (auto &thread : threads)
        thread.join();
    std::printf("made %d\n", made.load());
    return sum != 8;
}

// Atomics of C++20: waiting, latches and semaphores, which are futexes of the library.
//# Args: -std=gnu++20 -pthread
//# Link: -pthread
//# Variants: pie+O2 no-pie
//# Output: 3 arrived, 7
#include <atomic>
#include <cstdio>
#include <latch>
#include <thread>
#include <vector>
int main() {
    std::latch latch(3);
    std::atomic<int> arrived = 0, go = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([&] {
            arrived++;
            latch.count_down();
            go.wait(0);
        });
    latch.wait();
    std::printf("%d arrived, ", arrived.load());
    go = 7;
    go.notify_all();
    for (auto &thread : threads)
        thread.join();
    std::printf("%d\n", go.load());
}

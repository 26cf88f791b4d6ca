// std::thread, atomics, futures, and a 16-byte atomic where it has a lock.
//# Args: -pthread
//# Link: -pthread -latomic
//# Variants: pie static no-pie+O2
//# Output: 8000 21 3
#include <atomic>
#include <cstdio>
#include <future>
#include <thread>
#include <vector>
struct Wide {
    long low, high, more;
};
int main() {
    std::atomic<int> count{0};
    std::atomic<Wide> wide{Wide{1, 2, 3}};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([&] {
            for (int n = 0; n < 1000; n++)
                count++;
        });
    for (auto &thread : threads)
        thread.join();
    auto future = std::async(std::launch::async, [] { return 21; });
    std::printf("%d %d %ld\n", count.load(), future.get(), wide.load().more);
}

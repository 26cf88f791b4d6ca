// Readers and a writer; and something done once by whoever comes first.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie+O2
//# Output: once 1, consistent
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>
int main() {
    std::shared_mutex mutex;
    std::once_flag flag;
    int once = 0, a = 0, b = 0;
    bool consistent = true;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            std::call_once(flag, [&once] { once++; });
            for (int i = 0; i < 500; i++)
                if (t == 0) {
                    std::unique_lock lock(mutex);
                    a++;
                    b++;
                } else {
                    std::shared_lock lock(mutex);
                    if (a != b)
                        consistent = false;
                }
        });
    for (auto &thread : threads)
        thread.join();
    std::printf("once %d, %s\n", once, consistent ? "consistent" : "torn");
}

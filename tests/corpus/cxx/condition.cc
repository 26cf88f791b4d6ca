// A queue between two threads, with a condition variable and a timeout.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie+O2 static no-pie
//# Output: 5050 timeout
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <queue>
#include <thread>
static std::queue<int> queue;
static std::mutex mutex;
static std::condition_variable ready;
int main() {
    int sum = 0;
    std::thread consumer([&sum] {
        for (int n = 1; n;) {
            std::unique_lock lock(mutex);
            ready.wait(lock, [] { return !queue.empty(); });
            sum += n = queue.front();
            queue.pop();
        }
    });
    for (int n = 100; n >= 0; n--) {
        std::lock_guard lock(mutex);
        queue.push(n);
        ready.notify_one();
    }
    consumer.join();
    std::unique_lock lock(mutex);
    const bool late = ready.wait_for(lock, std::chrono::milliseconds(1), [] { return false; });
    std::printf("%d %s\n", sum, late ? "woken" : "timeout");
}

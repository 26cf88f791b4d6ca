// Clocks and durations: arithmetic by templates, time by the vDSO.
//# Variants: pie+O2 static
//# Output: 5400 s, forward
#include <chrono>
#include <cstdio>
#include <thread>
int main() {
    using namespace std::chrono;
    using namespace std::chrono_literals;
    const auto start = steady_clock::now();
    std::this_thread::sleep_for(1ms);
    const auto length = 1h + 30min;
    std::printf("%lld s, %s\n", static_cast<long long>(seconds(length).count()),
                steady_clock::now() - start >= 1ms ? "forward" : "backward");
}

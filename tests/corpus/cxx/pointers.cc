// Shared, weak and unique ownership, with a deleter of one's own, from two threads.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie+O2 static
//# Output: 1 expired deleted 0
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>
int main() {
    int alive = 0;
    std::weak_ptr<int> weak;
    {
        alive++;
        std::shared_ptr<int> shared(new int(1), [&alive](int *p) {
            alive--;
            delete p;
        });
        weak = shared;
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++)
            threads.emplace_back([copy = shared] {
                for (int n = 0; n < 1000; n++)
                    std::shared_ptr<int> again = copy;
            });
        for (auto &thread : threads)
            thread.join();
        threads.clear();
        std::printf("%ld ", shared.use_count());
    }
    auto closer = [](std::FILE *) { std::printf("deleted "); };
    std::printf("%s ", weak.expired() ? "expired" : "alive");
    { std::unique_ptr<std::FILE, decltype(closer)> file(stdout, closer); }
    std::printf("%d\n", alive);
}

// Algorithms over containers: stable sort, partial sort, heaps, permutations, binary search.
//# Args: -Wno-deprecated-declarations
//# Variants: pie+O3 static
//# Output: 1 2 3 | 9 8 | 24 | found
#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <vector>
int main() {
    std::vector<int> numbers = {5, 3, 9, 1, 8, 2};
    std::deque<int> copy(numbers.begin(), numbers.end());
    std::partial_sort(numbers.begin(), numbers.begin() + 3, numbers.end());
    std::printf("%d %d %d | ", numbers[0], numbers[1], numbers[2]);
    std::make_heap(copy.begin(), copy.end());
    for (int i = 0; i < 2; i++) {
        std::printf("%d ", copy.front());
        std::pop_heap(copy.begin(), copy.end());
        copy.pop_back();
    }
    int orders = 1, four[] = {1, 2, 3, 4};
    while (std::next_permutation(four, four + 4))
        orders++;
    std::stable_sort(numbers.begin(), numbers.end(), std::greater<int>());
    std::printf("| %d | %s\n", orders,
                std::binary_search(numbers.begin(), numbers.end(), 5, std::greater<int>()) ? "found"
                                                                                           : "lost");
}

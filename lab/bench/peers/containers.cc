// Containers, algorithms, lambdas, std::function, variants.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <variant>
#include <vector>
int main() {
    std::map<std::string, std::unique_ptr<int>> map;
    std::vector<std::string> names{"c", "a", "b"};
    std::sort(names.begin(), names.end());
    for (const auto &name : names)
        map[name] = std::make_unique<int>(static_cast<int>(map.size()) + 1);
    for (const auto &[name, value] : map)
        std::printf("%s=%d ", name.c_str(), *value);
    std::function<int(int)> add = [&](int sum) {
        return std::accumulate(map.begin(), map.end(), sum,
                               [](int s, const auto &pair) { return s + *pair.second; });
    };
    std::variant<int, std::string> variant = "text";
    std::printf("%d %s\n", add(0),
                std::visit(
                    [](const auto &held) {
                        if constexpr (std::is_same_v<const int &, decltype(held)>)
                            return "int";
                        else
                            return held.c_str();
                    },
                    variant));
}

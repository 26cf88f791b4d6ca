// Containers with an arena of std::pmr.
//# Variants: pie+O2 static
//# Output: 300 inside
#include <cstdio>
#include <list>
#include <map>
#include <memory_resource>
#include <string>
int main() {
    static char arena[1 << 16];
    std::pmr::monotonic_buffer_resource resource(arena, sizeof arena, std::pmr::null_memory_resource());
    std::pmr::map<int, std::pmr::string> names(&resource);
    for (int i = 0; i < 300; i++)
        names.emplace(i, "a text too long to be kept inside the string itself");
    const char *at = names[150].data();
    std::printf("%zu %s\n", names.size(), at >= arena && at < arena + sizeof arena ? "inside" : "outside");
}

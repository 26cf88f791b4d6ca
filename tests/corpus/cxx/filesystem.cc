// std::filesystem: a directory made, filled, walked and removed.
//# Variants: pie no-pie+O2
//# Output: a.txt:3 b.txt:5 removed 4
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>
namespace fs = std::filesystem;
int main() {
    const fs::path root = fs::absolute("made");
    fs::create_directories(root / "sub");
    std::ofstream(root / "a.txt") << "abc";
    std::ofstream(root / "sub" / "b.txt") << "abcde";
    std::vector<std::string> found;
    for (const auto &entry : fs::recursive_directory_iterator(root))
        if (entry.is_regular_file())
            found.push_back(entry.path().filename().string() + ":" + std::to_string(entry.file_size()));
    std::sort(found.begin(), found.end());
    for (const auto &name : found)
        std::printf("%s ", name.c_str());
    std::printf("removed %d\n", static_cast<int>(fs::remove_all(root)));
}

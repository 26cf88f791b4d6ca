// std::regex: a large template library with virtual calls and locale facets.
//# Variants: pie static+O2
//# Output: key=port value=8080
#include <cstdio>
#include <regex>
#include <string>
int main() {
    std::smatch match;
    const std::string line = "  port = 8080 ; comment";
    const std::regex pattern(R"(\s*(\w+)\s*=\s*(\d+).*)");
    if (std::regex_match(line, match, pattern))
        std::printf("key=%s value=%s\n", match[1].str().c_str(), match[2].str().c_str());
}

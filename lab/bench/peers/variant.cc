// std::variant, visit through a table of functions, optional and any.
#include <any>
#include <cstdio>
#include <optional>
#include <string>
#include <variant>
using Value = std::variant<int, std::string, double>;
struct Printer {
    void operator()(int n) const { std::printf("int %d ", n); }
    void operator()(const std::string &text) const { std::printf("text %s ", text.c_str()); }
    void operator()(double d) const { std::printf("real %.1f ", d); }
};
static std::optional<int> nothing(bool some) { return some ? std::optional<int>(1) : std::nullopt; }
int main(int argc, char **) {
    for (const Value &value : {Value(1), Value("two"), Value(3.5)})
        std::visit(Printer(), value);
    std::any any = 4;
    std::printf("%s any %d\n", nothing(argc > 1) ? "some" : "none", std::any_cast<int>(any));
}

// The same with code: functions in a section of their own, found by its bounds.
//# Args: -Wno-cast-function-type
//# Variants: pie no-pie+O2 static pie+gc
//# Output: inside 3
#include <stdint.h>
#include <stdio.h>
#define HOT __attribute__((section("hot_code"), noinline))
HOT static int one(void) { return 1; }
HOT static int two(void) { return 2; }
extern const char __start_hot_code[], __stop_hot_code[];
static int inside(int (*function)(void)) {
    return (uintptr_t)function >= (uintptr_t)__start_hot_code &&
           (uintptr_t)function < (uintptr_t)__stop_hot_code;
}
int main(void) {
    int within = inside(one) && inside(two) && !inside((int (*)(void))main);
    printf("%s %d\n", within ? "inside" : "outside", one() + two());
    return 0;
}

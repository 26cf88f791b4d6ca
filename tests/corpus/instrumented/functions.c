// -finstrument-functions: the program is told of every call and return.
//# Args: -finstrument-functions
//# Variants: pie no-pie static
//# Output: in in out out
#include <stdio.h>
static char log_text[32];
static int length;
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *caller);
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *caller);
void __cyg_profile_func_enter(void *function, void *caller) {
    length += sprintf(log_text + length, "in%s", function == caller ? "?" : " ");
}
void __cyg_profile_func_exit(void *function, void *caller) {
    length += sprintf(log_text + length, "out%s", function == caller ? "?" : " ");
}
__attribute__((noinline)) static int inner(int n) { return n + 1; }
__attribute__((noinline)) static int outer(int n) { return inner(n) + 1; }
__attribute__((no_instrument_function)) int main(void) {
    int result = outer(1);
    log_text[length - 1] = 0;
    puts(log_text);
    return result - 3;
}

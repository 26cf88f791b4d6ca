// Equal strings and tails of strings of two objects, wide ones too: only what they say matters.
//# Object: OTHER
//# Variants: pie+O2 static pie+gc no-pie+O0
//# Output: tail of a tail, 5 wide
#include <wchar.h>
const char *other(void);
const wchar_t *other_wide(void);
#ifdef OTHER
const char *other(void) { return "tail"; }
const wchar_t *other_wide(void) { return L"wide"; }
#else
#include <stdio.h>
int main(void) {
    static const char *const mine = "of a tail";
    printf("%s %s, %d %ls\n", other(), mine, (int)wcslen(L"fives"), other_wide());
    return 0;
}
#endif

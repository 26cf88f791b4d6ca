// A parser driven by a table of states, whose rows hold pointers to functions.
//# Variants: pie+O2 pie+relr static
//# Output: 42 -7 error at 2
#include <ctype.h>
#include <stdio.h>
struct machine {
    int value, sign, state;
};
typedef int action(struct machine *, int c);
static int minus(struct machine *m, int c) { return c == '-' ? (m->sign = -1, 1) : -1; }
static int digit(struct machine *m, int c) {
    return isdigit(c) ? (m->value = m->value * 10 + c - '0', 1) : -1;
}
static action *const actions[][2] = {{minus, digit}, {digit, NULL}};
static void parse(const char *text, const char *after) {
    struct machine m = {0, 1, 0};
    for (int at = 0; text[at]; at++) {
        int next = -1;
        for (int i = 0; i < 2 && next < 0; i++)
            if (actions[m.state][i])
                next = actions[m.state][i](&m, (unsigned char)text[at]);
        if (next < 0) {
            printf("error at %d%s", at + 1, after);
            return;
        }
        m.state = next;
    }
    printf("%d%s", m.sign * m.value, after);
}
int main(void) {
    parse("42", " ");
    parse("-7", " ");
    parse("1-2-", "");
    puts("");
    return 0;
}

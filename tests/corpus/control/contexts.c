// makecontext and swapcontext: two stacks take turns.
//# Variants: pie no-pie static
//# Output: main 1 side 1 main 2 side 2 end
#include <stdio.h>
#include <ucontext.h>
static ucontext_t main_context, side_context;
static char stack[65536];
static void side(void) {
    printf("side 1 ");
    swapcontext(&side_context, &main_context);
    printf("side 2 ");
}
int main(void) {
    getcontext(&side_context);
    side_context.uc_stack.ss_sp = stack;
    side_context.uc_stack.ss_size = sizeof stack;
    side_context.uc_link = &main_context;
    makecontext(&side_context, side, 0);
    printf("main 1 ");
    swapcontext(&main_context, &side_context);
    printf("main 2 ");
    swapcontext(&main_context, &side_context);
    puts("end");
    return 0;
}

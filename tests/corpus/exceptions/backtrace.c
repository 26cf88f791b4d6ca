// The unwinder walks the frames of the program itself.
//# Args: -fexceptions -fno-optimize-sibling-calls
//# Variants: static pie+O2 no-pie
//# Output: 5 frames to main
#include <stdio.h>
#include <unwind.h>
int main(void);
static int frames, found;
static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *unused) {
    (void)unused;
    frames += !found;
    found |= _Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context)) == (void *)main;
    return _URC_NO_REASON;
}
__attribute__((noinline)) static int low(int depth) {
    volatile int after = 1;
    if (depth == 0)
        _Unwind_Backtrace(step, NULL);
    else
        after += low(depth - 1);
    return after;
}
int main(void) {
    int result = low(3);
    printf("%d frames to main\n", frames);
    return result != 4;
}

// -N: text and data share one segment, which hugealign leaves alone.
//# NoLayout: the user asks for one segment
//# Link: -Wl,-N
//# Variants: static
//# Output: one segment
#include <stdio.h>
int main(void) { puts("one segment"); return 0; }

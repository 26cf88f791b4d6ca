// -init and -fini name functions of a library.
//# SkipLinker: wild (wild 0.10 knows neither -init nor -fini)
//# Library: LIBRARY -Wl,-init,begin -Wl,-fini,finish
//# Variants: pie no-pie+O2
//# Output: begin
//# Output: main 5
//# Output: finish
#include <unistd.h>
extern int value;
#ifdef LIBRARY
int value;
void begin(void);
void finish(void);
void begin(void) { value = write(1, "begin\n", 6) - 1; }
void finish(void) { value = (int)write(1, "finish\n", 7); }
#else
int main(void) { return write(1, value == 5 ? "main 5\n" : "main ?\n", 7) != 7; }
#endif

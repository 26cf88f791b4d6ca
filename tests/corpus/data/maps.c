// No mapping of the program is both writable and executable, and its text is mapped once.
//# Variants: pie no-pie static
//# Output: writable and executable: 0, of the program: 1 text
#include <stdio.h>
#include <string.h>
int main(void) {
    char line[4096];
    int both = 0, text = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        both += strstr(line, " rwx") != NULL;
        text += strstr(line, " r-x") && strstr(line, "/program");
    }
    printf("writable and executable: %d, of the program: %d text\n", both, text);
    return 0;
}

// /proc/self/maps: main lies in a mapping of the program that may be executed and not written; data may be written.
//# Variants: pie no-pie static static-pie
//# Output: text r-xp, data rw-p
#include <stdio.h>
#include <string.h>
static int data = 1;
int main(void) {
    char line[4096], rights[5], text[5] = "", writable[5] = "";
    unsigned long start, end;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3) {
            if ((unsigned long)main - start < end - start)
                strcpy(text, rights);
            if ((unsigned long)&data - start < end - start)
                strcpy(writable, rights);
        }
    printf("text %s, data %s\n", text, writable);
    return data - 1;
}

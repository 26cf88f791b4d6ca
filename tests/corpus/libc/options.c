// getopt with long options, whose variables are the C library's own data.
//# Args: -D_GNU_SOURCE
//# Run: -a --size=5 word -b
//# Variants: pie no-pie static
//# Output: a 5 b rest word
#include <getopt.h>
#include <stdio.h>
int main(int argc, char **argv) {
    static const struct option options[] = {{"size", required_argument, NULL, 's'}, {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "ab", options, NULL)) != -1)
        printf("%s ", c == 's' ? optarg : c == 'a' ? "a" : "b");
    printf("rest %s\n", argv[optind]);
    return 0;
}

// A descriptor handed over a socket.
//# Args: -D_GNU_SOURCE
//# Variants: pie static
//# Output: through the descriptor
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void) {
    int pair[2], ends[2], got = -1;
    char byte = 0, text[32] = "";
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {NULL, 0, &vector, 1, control.space, sizeof control.space, 0};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pipe(ends))
        return 1;
    memset(&control, 0, sizeof control);
    control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &ends[1], sizeof(int));
    if (sendmsg(pair[0], &message, 0) != 1 || recvmsg(pair[1], &message, 0) != 1)
        return 1;
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    if (write(got, "through the descriptor", 22) != 22 || read(ends[0], text, 22) != 22)
        return 1;
    puts(text);
    return 0;
}

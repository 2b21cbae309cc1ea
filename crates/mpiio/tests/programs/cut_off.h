/* What programs share in which one process is lost and the others go on. */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Ends every connection of this process to a server. */
static void cut_off(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_un peer = { 0 };
        socklen_t length = sizeof peer;
        if (!getpeername(fd, (struct sockaddr *)&peer, &length) && peer.sun_family == AF_UNIX
            && strstr(peer.sun_path, "/cluster/"))
            shutdown(fd, SHUT_RDWR);
    }
}

static void wait_for_the_others(const char *end)
{
    char name[4096];
    for (int other = 0; other < size; other++) {
        snprintf(name, sizeof name, "%s.%d", end, other);
        while (other != 1 && access(name, F_OK))
            usleep(10000);
    }
    _exit(0);
}

/* Says so, and ends. MPI_Finalize would wait for the dead one, and a launcher may end all when one ends
   without it. */
static void survived(const char *end)
{
    char name[4096];
    printf("rank %d survived\n", rank);
    fflush(stdout);
    snprintf(name, sizeof name, "%s.%d", end, rank);
    fclose(fopen(name, "w"));
    wait_for_the_others(end);
}

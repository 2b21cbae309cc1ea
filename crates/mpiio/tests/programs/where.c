/* Says which host each process is on; that all of them are in one program. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    char name[256];
    begin(&argc, &argv);
    CHECK(!gethostname(name, sizeof name));
    printf("host %s\n", name);
    fflush(stdout);
    return finish();
}

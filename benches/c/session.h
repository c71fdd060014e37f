/* A session for each rank. With sched_autogroup the kernel shares a processor between sessions.
 * Some launchers give each rank a session and others do not, so their ranks would not be measured
 * alike. */
#include <unistd.h>

static void own_session(void)
{
    if (getsid(0) == getpid())
        return;
    /* The leader of a process group must leave it first. */
    if (getpgrp() == getpid())
        setpgid(0, getpgid(getppid()));
    if (setsid() < 0)
        perror("setsid");
}

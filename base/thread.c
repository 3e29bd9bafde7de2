/* thread: threads and the interrupt flag, see thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

int thread_start(pthread_t *t, void *(*fn)(void *), void *arg, struct err *e)
{
    /* Workers never take the signals: the flag is the main thread's business. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(t, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        errno = rc;
        return err_sys(e, "start a thread");
    }
    return 0;
}

int thread_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static volatile sig_atomic_t raised;

static void on_signal(int sig)
{
    if (raised && sig == SIGINT) { /* the user asks again: no more waiting */
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
        return;
    }
    raised = 1;
}

void interrupt_install(void)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_signal;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGUSR1, &sa, NULL);
}

bool interrupt_raised(void)
{
    return raised != 0;
}

void interrupt_raise(void)
{
    raised = 1;
}

/* thread: threads and the interrupt flag, see thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

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
    if (!raised && sig != SIGUSR1) {
        static const char text[] =
            "assay: stopping as soon as nothing is lost; Ctrl-C again stops at once\n";
        int no = errno;
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
        errno = no;
    }
    raised = 1;
}

/* The handler runs on a stack of its own. oneDNN's generated products point the stack register into
 * their work space while they run (2.6: seen as heap corruption after a SIGTERM), so a frame pushed
 * there would overwrite it. Only the main thread takes signals, so one such stack is enough. */
static void own_stack(void)
{
    static void *kept; /* for the life of the process; the kernel's copy is no reference */
    if (kept)
        return;
    long least = sysconf(_SC_MINSIGSTKSZ); /* holds the vector registers too */
    stack_t st = {.ss_size = (size_t)(least > 0 ? least : 8192) + 65536};
    st.ss_sp = kept = mem_alloc(st.ss_size);
    sigaltstack(&st, NULL);
}

void interrupt_install(void)
{
    struct sigaction sa;
    own_stack();
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_signal;
    sa.sa_flags = SA_ONSTACK;
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

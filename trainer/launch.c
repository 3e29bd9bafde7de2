/* launch: local ranks as children of one launcher, see launch.h. */
#include "trainer/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "trainer/backend.h"

/* From the first bad end until what is left is killed, in seconds: more than a rank takes to end
 * itself. One that is stopped can't, and is killed at once. */
#define LEFT 8.0

struct launcher {
    int ranks;
    int *hub, *far; /* two sockets a rank: rank 0's ends and the rank's */
    pid_t *pid;     /* 0: ended */
    bool *stopped;  /* by a signal, and not going on */
    int status;     /* of the first bad end */
    int killed, by; /* rank that a signal ended, and which; -1: none */
    double bad_at;  /* 0: all is well */
    bool cleared;   /* what was left has been killed by us, or some of it */
    bool lost;      /* rank 0 was among them: nobody could write how it ended */
};

static void close_ends(const int *v, int ranks, int but)
{
    for (int i = 2; i < 2 * ranks; i++)
        if (i / 2 != but && v[i] >= 0)
            close(v[i]);
}

static int make_pairs(struct launcher *l, struct err *e)
{
    l->hub = mem_array((size_t)l->ranks * 2, sizeof *l->hub);
    l->far = mem_array((size_t)l->ranks * 2, sizeof *l->far);
    for (int i = 0; i < 2 * l->ranks; i++)
        l->hub[i] = l->far[i] = -1;
    for (int i = 2; i < 2 * l->ranks; i++) {
        int v[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, v))
            return err_sys(e, "make the sockets of %d ranks", l->ranks);
        l->hub[i] = v[0];
        l->far[i] = v[1];
    }
    return 0;
}

/* In the child: what it keeps, and who it is. */
static void take_seat(struct launcher *l, int rank, struct rendezvous_seat *seat, pid_t launcher)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != launcher) /* it died before the call above */
        raise(SIGTERM);
    close_ends(l->far, l->ranks, rank);
    if (rank)
        close_ends(l->hub, l->ranks, -1);
    int n = rank ? 1 : l->ranks - 1;
    int *sockets = mem_array((size_t)n * 2 + 1, sizeof *sockets);
    memcpy(sockets, rank ? l->far + 2 * rank : l->hub + 2, (size_t)n * 2 * sizeof *sockets);
    *seat = (struct rendezvous_seat){rank, l->ranks, sockets};
}

static void note_end(struct launcher *l, int rank, int state)
{
    l->pid[rank] = 0;
    int code = WIFEXITED(state) ? WEXITSTATUS(state) : EXIT_FAILED;
    if (code == EXIT_DONE)
        return;
    if (!(l->bad_at > 0))
        l->status = code;
    /* A death explains the ends of the others, whichever was noticed first. */
    if (WIFSIGNALED(state) && !l->cleared && l->killed < 0) {
        l->status = EXIT_FAILED;
        l->killed = rank;
        l->by = WTERMSIG(state);
    }
    if (!(l->bad_at > 0))
        l->bad_at = clock_now();
}

static void reap(struct launcher *l)
{
    int state;
    pid_t p;
    while ((p = waitpid(-1, &state, WNOHANG | WUNTRACED | WCONTINUED)) > 0)
        for (int i = 0; i < l->ranks; i++) {
            if (l->pid[i] != p)
                continue;
            l->stopped[i] = WIFSTOPPED(state);
            if (WIFEXITED(state) || WIFSIGNALED(state))
                note_end(l, i, state);
        }
}

static void kill_those(struct launcher *l, bool stopped_only)
{
    for (int i = 0; i < l->ranks; i++)
        if (l->pid[i] && (l->stopped[i] || !stopped_only)) {
            l->cleared = true;
            l->lost = l->lost || i == 0;
            kill(l->pid[i], SIGKILL);
        }
}

static bool any_left(const struct launcher *l)
{
    for (int i = 0; i < l->ranks; i++)
        if (l->pid[i])
            return true;
    return false;
}

static void watch(struct launcher *l, const sigset_t *set)
{
    const char *s = getenv("ASSAY_RANK_SILENCE");
    double left = LEFT, v;
    if (s && str_f64(str_z(s), &v) == 0 && v > 0)
        left = v;
    while (any_left(l)) {
        struct timespec tick = {0, 100000000};
        int sig = sigtimedwait(set, NULL, &tick);
        if ((sig == SIGTERM || sig == SIGINT || sig == SIGUSR1) && l->pid[0])
            kill(l->pid[0], sig == SIGUSR1 ? SIGUSR1 : SIGTERM);
        reap(l);
        if (l->bad_at > 0)
            kill_those(l, clock_now() - l->bad_at <= left);
    }
}

static int start_all(struct launcher *l, struct rendezvous_seat *seat, const sigset_t *before,
                     struct err *e)
{
    pid_t self = getpid();
    fflush(NULL);
    for (int i = 0; i < l->ranks; i++) {
        pid_t p = fork();
        if (p == 0) {
            take_seat(l, i, seat, self);
            sigprocmask(SIG_SETMASK, before, NULL);
            return 1;
        }
        if (p < 0) {
            err_sys(e, "start rank %d of %d", i, l->ranks);
            kill_those(l, false);
            return -1;
        }
        l->pid[i] = p;
    }
    return 0;
}

int launch_ranks(int ranks, struct rendezvous_seat *seat, int *status, struct err *e)
{
    struct launcher l = {.ranks = ranks, .killed = -1};
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    sigset_t set, before;
    *status = EXIT_FAILED;
    l.pid = mem_array((size_t)ranks, sizeof *l.pid);
    l.stopped = mem_array((size_t)ranks, sizeof *l.stopped);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &before);
    int rc = make_pairs(&l, e);
    if (!rc)
        rc = start_all(&l, seat, &before, e);
    if (rc <= 0) { /* the launcher */
        close_ends(l.far, ranks, -1);
        close_ends(l.hub, ranks, -1);
        if (!rc)
            watch(&l, &set);
        else
            reap(&l);
        sigprocmask(SIG_SETMASK, &before, NULL);
        *status = l.status;
        if (!rc && l.killed >= 0)
            rc = err_set(e, "rank %d on %s was killed by signal %d (%s)", l.killed, host, l.by,
                         strsignal(l.by));
        else if (!rc && l.lost)
            rc = err_set(e, "rank 0 on %s did not end when another had, and was killed", host);
    }
    free(l.pid);
    free(l.stopped);
    free(l.hub);
    free(l.far);
    return rc;
}

static bool opens(int device)
{
    struct backend b;
    struct err ignored = {0};
    return backend_open(&b, "cuda", device, 1, &ignored) == 0;
}

/* In a child: a device that was opened does not survive a fork, and ranks are forked behind this. */
int64_t launch_devices(int64_t most)
{
    int state;
    fflush(NULL);
    pid_t p = fork();
    if (p == 0) {
        int64_t n = opens(0) ? most : 0;
        while (n > 1 && !opens((int)n - 1))
            n--;
        _exit((int)n);
    }
    if (p < 0 || waitpid(p, &state, 0) != p || !WIFEXITED(state))
        return 0;
    return WEXITSTATUS(state);
}

static int64_t ranks_by_hardware(const struct launch_wish *w)
{
    int64_t count = w->hardware ? w->hardware->count : 1;
    if (count < 2 || count > 255 || str_eqz(w->backend, "cpu"))
        return 1;
    int64_t here = launch_devices(count);
    if (here > 0 && here < count)
        log_warn("%.*s has %lld devices, here are %lld: working with these",
                 STR_ARG(w->hardware->name), (long long)count, (long long)here);
    return here > 0 ? here : 1;
}

int launch_command(const struct launch_wish *w, struct rendezvous_seat *seat, bool *launched,
                   int *status, struct err *e)
{
    int64_t ranks = w->option ? w->option : w->usual;
    bool told = rendezvous_told();
    *launched = false;
    if (w->option > 1 && told)
        return err_code(
            e, EXIT_USAGE,
            "--ranks %lld starts ranks, but mpirun, srun, RANK or WORLD_SIZE says that this "
            "is one already",
            (long long)w->option);
    if (!ranks && !told)
        ranks = ranks_by_hardware(w);
    if (ranks <= 1 || told)
        return 1;
    if (rendezvous_limits(e))
        return -1;
    *launched = true;
    return launch_ranks((int)ranks, seat, status, e);
}

void launch_interrupts(const struct rendezvous_seat *seat)
{
    interrupt_install();
    if (seat && seat->rank)
        signal(SIGINT, SIG_IGN);
}

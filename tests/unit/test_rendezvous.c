/* test_rendezvous: ranks as processes find each other by every way, share, and end together. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/tap.h"
#include "trainer/launch.h"
#include "trainer/rendezvous.h"

/* What a rank does, and what the test reads of it. */
struct told {
    int rc, local, local_world;
    double seconds;
    char way[32], msg[1024];
};
typedef int rank_fn(struct rendezvous *r, int rank, struct err *e);
typedef void env_fn(int rank, int world);
struct job {
    int world, start; /* start: ranks that are really started */
    env_fn *env;
    rank_fn *fn;
    double limit, silence;
    int killed; /* a rank that gets `signal` soon; 0: none */
    int signal;
};

static void one_rank(const struct job *j, int rank, int out)
{
    struct rendezvous r;
    struct err e = {0};
    struct told t = {0};
    double before = clock_now();
    for (int i = 0; i < 3; i++)
        unsetenv((const char *const[]){"RANK", "WORLD_SIZE", "LOCAL_RANK"}[i]);
    j->env(rank, j->world);
    struct rendezvous_options o = {.start = j->limit, .silence = j->silence};
    t.rc = rendezvous_open(&r, &o, &e);
    t.local = r.local;
    t.local_world = r.local_world;
    snprintf(t.way, sizeof t.way, "%s", r.way ? r.way : "");
    if (!t.rc) {
        t.rc = j->fn(&r, rank, &e);
        if (t.rc && !rendezvous_failed(&r))
            rendezvous_abort(&r, &e);
        rendezvous_close(&r);
    }
    t.seconds = clock_now() - before;
    snprintf(t.msg, sizeof t.msg, "%s", t.rc ? e.msg : "");
    (void)!write(out, &t, sizeof t);
    _exit(0);
}

/* Runs a job; told[rank].rc is 99 for one that said nothing. */
static void run(const struct job *j, struct told *told)
{
    pid_t pid[8];
    int in[8];
    for (int i = 0; i < j->start; i++) {
        int p[2];
        if (pipe(p))
            return;
        pid[i] = fork();
        if (pid[i] == 0) {
            close(p[0]);
            one_rank(j, i, p[1]);
        }
        close(p[1]);
        in[i] = p[0];
    }
    if (j->killed) {
        usleep(300000);
        kill(pid[j->killed], j->signal);
    }
    for (int k = 0; k < j->start; k++) {
        if (j->killed == k && j->killed)
            continue;
        memset(&told[k], 0, sizeof told[k]);
        if (read(in[k], &told[k], sizeof told[k]) != sizeof told[k])
            told[k].rc = 99;
    }
    if (j->killed) {
        kill(pid[j->killed], SIGKILL);
        told[j->killed] = (struct told){.rc = 99};
    }
    for (int i = 0; i < j->start; i++) {
        waitpid(pid[i], NULL, 0);
        close(in[i]);
    }
}

/* ---- ways ---- */

static int port;
static char file[64];

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(s, (struct sockaddr *)&a, n) || getsockname(s, (struct sockaddr *)&a, &n))
        return 0;
    close(s);
    return ntohs(a.sin_port);
}

static void set(const char *name, int v)
{
    char text[16];
    snprintf(text, sizeof text, "%d", v);
    setenv(name, text, 1);
}

static void env_ranks(int rank, int world)
{
    set("RANK", rank);
    set("WORLD_SIZE", world);
}

static void env_tcp(int rank, int world)
{
    env_ranks(rank, world);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set("MASTER_PORT", port);
}

static void env_file(int rank, int world)
{
    env_ranks(rank, world);
    setenv("ASSAY_RENDEZVOUS", file, 1);
    set("LOCAL_RANK", rank);
}

static void env_slurm(int rank, int world)
{
    set("SLURM_PROCID", rank);
    set("SLURM_STEP_NUM_TASKS", world);
    set("SLURM_LOCALID", rank);
    set("SLURM_JOB_ID", getppid());
    set("SLURM_STEP_ID", 3);
    setenv("SLURM_STEP_NODELIST", "localhost,other[07-09]", 1);
}

static void env_other_world(int rank, int world)
{
    env_tcp(rank, rank ? world + 1 : world);
}

static void env_twice(int rank, int world)
{
    env_tcp(rank == 2 ? 1 : rank, world);
}

static void env_alone(int rank, int world)
{
    (void)rank;
    (void)world;
    set("SLURM_PROCID", 0); /* a batch script without srun */
    set("SLURM_NTASKS", 8);
}

static void env_nowhere(int rank, int world)
{
    env_ranks(rank, world);
}

/* ---- what ranks do ---- */

static int talk(struct rendezvous *r, int rank, struct err *e)
{
    int mine = 100 + rank, all[8] = {0};
    char *big = calloc(1, 3 << 20);
    int rc = rendezvous_gather(r, &mine, sizeof mine, all, e);
    for (int i = 0; i < r->world && !rc; i++)
        if (all[i] != 100 + i)
            rc = err_set(e, "gathered %d at %d", all[i], i);
    for (int root = 0; root < r->world && !rc; root++) {
        memset(big, rank == root ? 'A' + root : 0, 3 << 20);
        rc = rendezvous_share(r, root, big, 3 << 20, e);
        for (int k = 0; k < 3 << 20 && !rc; k++)
            if (big[k] != 'A' + root)
                rc = err_set(e, "byte %d of root %d is %d", k, root, big[k]);
    }
    free(big);
    return rc ? rc : rendezvous_barrier(r, e);
}

static int forever(struct rendezvous *r, int rank, struct err *e)
{
    (void)rank;
    for (int i = 0; i < 1000; i++) {
        usleep(10000);
        if (rendezvous_barrier(r, e))
            return -1;
    }
    return 0;
}

static int other_call(struct rendezvous *r, int rank, struct err *e)
{
    char v[64] = {0}, all[512];
    return rendezvous_gather(r, v, rank == 1 ? 9 : 8, all, e);
}

static int gives_up(struct rendezvous *r, int rank, struct err *e)
{
    if (rank == 1)
        return err_set(e, "its disk is full");
    return rendezvous_barrier(r, e);
}

static int leaves(struct rendezvous *r, int rank, struct err *e)
{
    return rank == 1 ? 0 : rendezvous_barrier(r, e);
}

/* Hangs where it does not look up. */
static int hears_nothing(struct rendezvous *r, int rank, struct err *e)
{
    (void)r;
    (void)e;
    alarm(20); /* so that this test fails, and does not hang, when nobody ends it */
    for (;;)
        pause();
    return rank;
}

/* Every rank that was started, but for `but`, ended with this in its sentence, in time. */
static void all_say(const char *name, const struct told *t, int n, int but, const char *a,
                    const char *b)
{
    for (int i = 0; i < n; i++)
        if (i != but || !but)
            CHECK(t[i].rc == -1 && strstr(t[i].msg, a) && strstr(t[i].msg, b) && t[i].seconds < 5,
                  "%s: rank %d ends with \"%s\"", name, i, t[i].msg);
}

static void test_ways(void)
{
    struct told t[8];
    struct {
        const char *name, *way;
        env_fn *env;
    } ways[] = {{"RANK, WORLD_SIZE and MASTER_ADDR", "env+tcp", env_tcp},
                {"RANK, WORLD_SIZE and a file", "env+file", env_file},
                {"the variables of srun", "slurm", env_slurm}};
    for (size_t w = 0; w < 3; w++) {
        if (ways[w].env == env_file) { /* what an earlier job left, with an address that is dead */
            FILE *f = fopen(file, "w");
            fprintf(f, "assay-rendezvous 1 %032d\n127.0.0.1 9\n", 7);
            fclose(f);
        }
        run(&(struct job){4, 4, ways[w].env, talk, 10, 5, 0, 0}, t);
        for (int i = 0; i < 4; i++)
            CHECK(t[i].rc == 0 && strcmp(t[i].way, ways[w].way) == 0 && t[i].local == i &&
                      t[i].local_world == 4,
                  "by %s rank %d meets the others and shares: %s %d of %d %s", ways[w].name, i,
                  t[i].way, t[i].local, t[i].local_world, t[i].msg);
    }
    CHECK(access(file, F_OK) != 0, "the file is gone when all are there");
    run(&(struct job){1, 1, env_alone, talk, 1, 1, 0, 0}, t);
    CHECK(t[0].rc == 0 && strcmp(t[0].way, "one") == 0, "a batch script of Slurm is no step: %s",
          t[0].msg);
    run(&(struct job){2, 1, env_nowhere, talk, 1, 1, 0, 0}, t);
    CHECK(t[0].rc == -1 && strstr(t[0].msg, "MASTER_ADDR") && strstr(t[0].msg, "ASSAY_RENDEZVOUS"),
          "ranks without an address are told what to set: %s", t[0].msg);
}

static void test_meeting(void)
{
    struct told t[8];
    run(&(struct job){4, 2, env_tcp, talk, 1, 1, 0, 0}, t);
    all_say("two ranks never start", t, 2, 0, "ranks 2, 3 of 4 did not come", "within 1 s");
    run(&(struct job){2, 2, env_other_world, talk, 3, 1, 0, 0}, t);
    all_say("another WORLD_SIZE", t, 2, 0, "rank 1 was started as one of 3", "rank 0 as one of 2");
    run(&(struct job){3, 3, env_twice, talk, 2, 1, 0, 0}, t);
    CHECK(t[0].rc == -1 && strstr(t[0].msg, "rank 1 is there twice"), "twice the same rank: %s",
          t[0].msg);
    unlink(file);
    struct job j = {2, 2, env_file, talk, 1, 1, 0, 0};
    j.start = 1;
    run(&j, t);
    all_say("rank 0 waits alone", t, 1, 0, "rank 1 of 2 did not come", "env+file");
}

static void test_ends(void)
{
    struct told t[8];
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    run(&(struct job){3, 3, env_tcp, forever, 5, 5, 1, SIGKILL}, t);
    all_say("kill -9 of rank 1", t, 3, 1, "rank 1 on", host);
    run(&(struct job){3, 3, env_tcp, forever, 5, 1, 2, SIGSTOP}, t);
    all_say("SIGSTOP of rank 2", t, 3, 2, "rank 2 on", "no sign of life for 1 s");
    double before = clock_now();
    run(&(struct job){3, 3, env_tcp, hears_nothing, 5, 1, 1, SIGKILL}, t);
    CHECK(t[0].rc == 99 && t[2].rc == 99 && clock_now() - before < 8,
          "ranks that hang are ended by their own threads");
    run(&(struct job){3, 3, env_tcp, other_call, 5, 5, 0, 0}, t);
    all_say("another call", t, 3, 0, "rank 1 on", "of 9 bytes");
    run(&(struct job){3, 3, env_tcp, gives_up, 5, 5, 0, 0}, t);
    all_say("one gives up", t, 3, 1, "rank 1 on", "its disk is full");
    run(&(struct job){3, 3, env_tcp, leaves, 5, 5, 0, 0}, t);
    all_say("one leaves early", t, 3, 1, "rank 1 on", "it left before the work was done");
}

/* Rank 0 dead is another matter: it was the middle of the star. */
static void test_middle(void)
{
    int p[2];
    struct told t[2];
    port = free_port();
    pid_t pid[3];
    if (pipe(p))
        return;
    struct job j = {3, 3, env_tcp, forever, 5, 1, 0, 0};
    for (int i = 0; i < 3; i++)
        if ((pid[i] = fork()) == 0)
            one_rank(&j, i, p[1]);
    usleep(300000);
    kill(pid[0], SIGSTOP);
    for (int i = 0; i < 2; i++)
        if (read(p[0], &t[i], sizeof t[i]) != sizeof t[i])
            t[i].rc = 99;
    all_say("SIGSTOP of rank 0", t, 2, 0, "rank 0 on", "no sign of life for 1 s");
    kill(pid[0], SIGKILL);
    for (int i = 0; i < 3; i++)
        waitpid(pid[i], NULL, 0);
}

/* ---- launched ranks ---- */

static void launched(const char *name, rank_fn *fn, int expect, const char *says)
{
    struct rendezvous_seat seat;
    struct err e = {0};
    int status = -1, rc = launch_ranks(3, &seat, &status, &e);
    if (rc == 1) {
        struct rendezvous r;
        struct rendezvous_options o = {.seat = &seat, .silence = 2};
        int bad = rendezvous_open(&r, &o, &e) || fn(&r, seat.rank, &e);
        if (bad && !rendezvous_failed(&r))
            rendezvous_abort(&r, &e);
        rendezvous_close(&r);
        _exit(bad ? EXIT_INCOMPLETE : 0);
    }
    CHECK(status == expect && (says ? rc == -1 && strstr(e.msg, says) : rc == 0),
          "%s: status %d %s", name, status, rc ? e.msg : "");
}

static int dies(struct rendezvous *r, int rank, struct err *e)
{
    if (rank == 2)
        raise(SIGKILL);
    return rendezvous_barrier(r, e);
}

static int hangs(struct rendezvous *r, int rank, struct err *e)
{
    if (rank == 1)
        return err_set(e, "no");
    if (rank == 2)
        raise(SIGSTOP);
    return rendezvous_barrier(r, e);
}

int main(void)
{
    snprintf(file, sizeof file, "/tmp/test_rendezvous.%d", (int)getpid());
    setenv("ASSAY_RANK_SILENCE", "1", 1);
    port = free_port();
    test_ways();
    test_meeting();
    test_ends();
    test_middle();
    launched("launched ranks share", talk, EXIT_DONE, NULL);
    launched("a status of a rank is the launcher's", gives_up, EXIT_INCOMPLETE, NULL);
    launched("a killed rank is named", dies, EXIT_FAILED, "was killed by signal 9");
    launched("one that is stopped is killed in the end", hangs, EXIT_INCOMPLETE, NULL);
    return tap_done();
}

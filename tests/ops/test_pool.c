/* test_pool: every task of every job is done exactly once, by any number of threads, also when
 * threads come late: thousands of short jobs of changing size in a row, with pauses that send the
 * workers to sleep.
 */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"
#include "trainer/cpu/pool.h"

enum { MOST = 300 };
struct job {
    int runs[MOST];  /* of each task; plain, so that a sanitizer sees two threads in one task */
    long long stamp; /* written by the caller before, read by each task */
    long long seen[MOST];
    _Atomic int workers[8]; /* tasks each worker took */
    int threads;
    _Atomic int wrong_worker;
};

static void task(void *ctx, int64_t i, int worker)
{
    struct job *j = ctx;
    j->runs[i]++;
    j->seen[i] = j->stamp;
    if (worker < 0 || worker >= j->threads)
        atomic_store(&j->wrong_worker, 1);
    else
        atomic_fetch_add(&j->workers[worker], 1);
}

static void slow_task(void *ctx, int64_t i, int worker)
{
    usleep(2000);
    task(ctx, i, worker);
}

static void run_jobs(int threads, int jobs)
{
    struct err e = {0};
    struct pool *p = pool_new(threads, &e);
    if (!CHECK(p && pool_threads(p) == threads, "a pool of %d threads starts", threads))
        return;
    struct job j = {.threads = threads};
    bool once = true, fresh = true;
    for (int k = 0; k < jobs; k++) {
        int tasks = k * 7 % MOST;
        memset(j.runs, 0, sizeof j.runs);
        j.stamp = k + 1;
        pool_run(p, tasks, task, &j);
        for (int i = 0; i < MOST; i++) {
            once = once && j.runs[i] == (i < tasks);
            fresh = fresh && (i >= tasks || j.seen[i] == k + 1);
        }
        if (k % 500 == 499)
            usleep(3000); /* long enough for the workers to sleep */
    }
    CHECK(once, "%d threads: each task of %d jobs is done exactly once before pool_run returns",
          threads, jobs);
    CHECK(fresh, "%d threads: tasks see what the caller wrote before", threads);
    CHECK(!atomic_load(&j.wrong_worker), "%d threads: worker numbers are below the threads",
          threads);
    for (int w = 0; w < 8; w++)
        atomic_store(&j.workers[w], 0);
    int busy = 0;
    for (int round = 0; busy < threads && round < 200; round++) { /* a core may be slow to come */
        pool_run(p, 8 * threads, slow_task, &j);
        busy = 0;
        for (int w = 0; w < threads; w++)
            busy += atomic_load(&j.workers[w]) > 0;
    }
    CHECK(busy == threads, "%d threads: all of them take part in long jobs", threads);
    pool_free(p);
}

int main(void)
{
    run_jobs(1, 400);
    run_jobs(2, 4000);
    run_jobs(5, 4000);
    pool_free(NULL);
    return tap_done();
}

/* pool: threads that take numbered tasks, see pool.h.
 *
 * Why not `omp parallel for`: its barrier waits for every thread, also for one that another process
 * has pushed off its core, and how it waits (spinning for milliseconds, or sleeping at once) can
 * only be chosen by the environment of the process. Here the caller takes tasks itself, and waits
 * only for tasks that others have begun: when the other cores are busy it does all of the work and
 * loses nothing. Waiting is a short spin that yields the core, then sleep. Measured on 2 cores with
 * a load of 8: a training step of 3 layers x 192 takes 350-560 ms with OpenMP, 47 ms with this.
 *
 * A job is published in one word: its number above, the next task below. Taking a task is a
 * compare-and-swap on that word, so a thread that comes late and still holds the word of an old job
 * takes nothing. While the fields of a new job are written, the word says CLOSED.
 */
#include "trainer/cpu/pool.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"

enum { SPINS = 60 }; /* yields before sleeping; about 30 us on an idle core */
static const uint32_t closed = UINT32_MAX;

struct worker {
    struct pool *pool;
    pthread_t thread;
    int number;
};

struct pool {
    int threads;
    struct worker *workers; /* threads - 1; worker 0 is the caller */
    int started;
    _Alignas(64) _Atomic uint64_t word;
    _Atomic(pool_fn *) fn;
    _Atomic(void *) ctx;
    _Atomic uint32_t tasks;
    _Alignas(64) _Atomic uint32_t done;
    _Alignas(64) _Atomic int sleeping; /* workers in cond_wait */
    _Atomic bool caller_sleeps, stop;
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
};

/* Takes and does tasks of the current job until none is left. */
static void take_tasks(struct pool *p, int number)
{
    for (;;) {
        uint64_t word = atomic_load(&p->word);
        uint32_t task = (uint32_t)word, tasks = atomic_load(&p->tasks);
        pool_fn *fn = atomic_load(&p->fn);
        void *ctx = atomic_load(&p->ctx);
        if (task == closed || task >= tasks)
            return;
        if (!atomic_compare_exchange_strong(&p->word, &word, word + 1))
            continue;
        fn(ctx, task, number);
        if (atomic_fetch_add(&p->done, 1) + 1 == tasks && atomic_load(&p->caller_sleeps)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->finished);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

/* Until there is another job than `seen`, or the end. */
static void await_job(struct pool *p, uint32_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        if ((uint32_t)(atomic_load(&p->word) >> 32) != seen || atomic_load(&p->stop))
            return;
        sched_yield();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleeping, 1);
    while ((uint32_t)(atomic_load(&p->word) >> 32) == seen && !atomic_load(&p->stop))
        pthread_cond_wait(&p->work, &p->lock);
    atomic_fetch_sub(&p->sleeping, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    omp_set_num_threads(1); /* oneDNN stays on this thread */
    uint32_t seen = 0;
    while (!atomic_load(&p->stop)) {
        uint32_t job = (uint32_t)(atomic_load(&p->word) >> 32);
        take_tasks(p, w->number);
        if (job == seen)
            await_job(p, seen);
        seen = job;
    }
    return NULL;
}

struct pool *pool_new(int threads, struct err *e)
{
    struct pool *p = mem_aligned(64, sizeof *p);
    p->threads = threads;
    p->workers = mem_array((size_t)threads, sizeof *p->workers);
    atomic_store(&p->word, closed);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->finished, NULL);
    for (int i = 1; i < threads; i++) {
        struct worker *w = &p->workers[i];
        *w = (struct worker){.pool = p, .number = i};
        if (thread_start(&w->thread, worker_main, w, e) < 0) {
            pool_free(p);
            err_wrap(e, "thread %d of %d", i + 1, threads);
            return NULL;
        }
        p->started = i;
    }
    return p;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i <= p->started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->finished);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p);
}

int pool_threads(const struct pool *p)
{
    return p->threads;
}

static void publish(struct pool *p, uint32_t tasks, pool_fn *fn, void *ctx)
{
    uint64_t job = ((atomic_load(&p->word) >> 32) + 1) << 32;
    atomic_store(&p->word, job | closed);
    atomic_store(&p->done, 0);
    atomic_store(&p->fn, fn);
    atomic_store(&p->ctx, ctx);
    atomic_store(&p->tasks, tasks);
    atomic_store(&p->word, job);
    if (atomic_load(&p->sleeping) > 0) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->work);
        pthread_mutex_unlock(&p->lock);
    }
}

static void await_end(struct pool *p, uint32_t tasks)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&p->done) == tasks)
            return;
        sched_yield();
    }
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_sleeps, true);
    while (atomic_load(&p->done) != tasks)
        pthread_cond_wait(&p->finished, &p->lock);
    atomic_store(&p->caller_sleeps, false);
    pthread_mutex_unlock(&p->lock);
}

void pool_run(struct pool *p, int64_t tasks, pool_fn *fn, void *ctx)
{
    int omp = omp_get_max_threads();
    omp_set_num_threads(1);
    if (tasks == 1 || p->threads == 1) {
        for (int64_t i = 0; i < tasks; i++)
            fn(ctx, i, 0);
    } else if (tasks > 1) {
        publish(p, (uint32_t)tasks, fn, ctx);
        take_tasks(p, 0);
        await_end(p, (uint32_t)tasks);
    }
    omp_set_num_threads(omp);
}

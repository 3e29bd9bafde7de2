/* loader: windows of tokens, read ahead by one thread into a small ring, see loader.h. */
#include "trainer/loader.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"

#define AHEAD 3 /* batches in the ring: one in use, two being prepared */

struct slot {
    int64_t step;
    int32_t *ids, *targets;
    uint64_t *seq;
};
struct loader {
    const struct tokens *tokens;
    struct loader_options o;
    int64_t windows;
    struct slot ring[AHEAD];
    int32_t *window; /* T + 1 ids */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock: steps made and taken so far, in steps; stop and failure. */
    int64_t made, taken;
    int64_t read; /* tokens */
    bool stop, failed;
    struct err fault;
    double stalled;
};

int64_t loader_windows(int64_t tokens, int64_t context)
{
    return tokens > 0 ? (tokens - 1) / context : 0;
}

int64_t loader_window(const struct loader_options *o, int64_t windows, int64_t g)
{
    int64_t epoch = g / windows, at = g % windows;
    if (!o->shuffle)
        return at;
    struct rng key = rng_make(o->seed, "order", (uint64_t)epoch);
    return (int64_t)rng_permute(rng_u64(&key), (uint64_t)windows, (uint64_t)at);
}

static int fill(struct loader *l, struct slot *s, int64_t step, struct err *e)
{
    int64_t T = l->o.context;
    s->step = step;
    for (int64_t i = l->o.lo; i < l->o.hi; i++) {
        int64_t g = (step - 1) * l->o.batch + i, row = i - l->o.lo;
        int64_t w = loader_window(&l->o, l->windows, g);
        if (tokens_get(l->tokens, w * T, T + 1, l->o.vocab, l->window, e))
            return -1;
        s->seq[row] = (uint64_t)g;
        for (int64_t t = 0; t < T; t++) {
            s->ids[row * T + t] = l->window[t];
            s->targets[row * T + t] = l->window[t + 1];
        }
    }
    return 0;
}

/* Step s lies in ring slot s % AHEAD. A slot is free again when the step behind it was taken: the
 * batch handed out stays valid until the next call. */
static void *read_ahead(void *arg)
{
    struct loader *l = arg;
    for (int64_t step = l->o.first_step; step <= l->o.last_step; step++) {
        struct err e = {0};
        pthread_mutex_lock(&l->lock);
        while (!l->stop && step - l->taken >= AHEAD)
            pthread_cond_wait(&l->changed, &l->lock);
        bool stop = l->stop;
        pthread_mutex_unlock(&l->lock);
        if (stop)
            break;
        int rc = fill(l, &l->ring[step % AHEAD], step, &e);
        pthread_mutex_lock(&l->lock);
        if (rc) {
            l->failed = true;
            l->fault = e;
        } else {
            l->made = step;
            l->read += (l->o.hi - l->o.lo) * (l->o.context + 1);
        }
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        if (rc)
            break;
    }
    return NULL;
}

struct loader *loader_open(const struct tokens *t, const struct loader_options *o, struct err *e)
{
    int64_t windows = loader_windows(t->n, o->context);
    if (windows < 1) {
        err_set(e, "a split of %lld tokens has no whole window of %lld and its last target",
                (long long)t->n, (long long)o->context);
        return NULL;
    }
    struct loader *l = mem_zero(sizeof *l);
    l->tokens = t;
    l->o = *o;
    l->windows = windows;
    l->made = l->taken = o->first_step - 1;
    l->window = mem_array((size_t)o->context + 1, sizeof *l->window);
    for (int i = 0; i < AHEAD; i++) {
        size_t rows = (size_t)(l->o.hi - l->o.lo), n = rows * (size_t)o->context;
        l->ring[i].ids = mem_array(n, sizeof(int32_t));
        l->ring[i].targets = mem_array(n, sizeof(int32_t));
        l->ring[i].seq = mem_array(rows, sizeof(uint64_t));
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (thread_start(&l->thread, read_ahead, l, e)) {
        loader_close(l);
        return NULL;
    }
    l->started = true;
    return l;
}

int loader_next(struct loader *l, struct loader_batch *out, struct err *e)
{
    double before = clock_now();
    pthread_mutex_lock(&l->lock);
    int64_t step = l->taken + 1;
    if (step > l->o.last_step) {
        pthread_mutex_unlock(&l->lock);
        return 0;
    }
    /* A failure counts only when its step is asked for: what was read before it is whole. */
    while (l->made < step && !l->failed)
        pthread_cond_wait(&l->changed, &l->lock);
    bool got = l->made >= step;
    if (got)
        l->taken = step;
    else
        *e = l->fault;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    l->stalled += clock_now() - before;
    if (!got)
        return -1;
    const struct slot *s = &l->ring[step % AHEAD];
    *out = (struct loader_batch){s->step, l->o.hi - l->o.lo, s->ids, s->targets, s->seq};
    return 1;
}

int64_t loader_read(struct loader *l)
{
    pthread_mutex_lock(&l->lock);
    int64_t n = l->read;
    pthread_mutex_unlock(&l->lock);
    return n;
}

double loader_stalled(const struct loader *l)
{
    return l->stalled;
}

void loader_close(struct loader *l)
{
    if (!l)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    for (int i = 0; i < AHEAD; i++) {
        free(l->ring[i].ids);
        free(l->ring[i].targets);
        free(l->ring[i].seq);
    }
    free(l->window);
    free(l);
}

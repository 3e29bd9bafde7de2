/* comm_host: a queue of collectives over host memory, see comm_host.h. */
#include "trainer/comm_host.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "trainer/tensor.h"

static const char *const what_name[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};

struct job {
    struct comm_note note;
    void *to;
    const void *from;
    struct job *next;
};
struct comm_host {
    struct comm *c;
    const struct comm_link *link;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock. */
    struct job *first, *last;
    int64_t queued, done;
    bool stop, failed;
    struct err fault;
    struct comm_note *notes; /* of the thread: [world] */
};

static struct comm_host *host_of(struct comm *c)
{
    struct comm_host *h;
    memcpy(&h, c->impl, sizeof h); /* it stands first, see comm_host.h */
    return h;
}

/* ---- the thread ---- */

static bool same(const struct comm_note *a, const struct comm_note *b)
{
    return a->number == b->number && a->what == b->what && a->type == b->type &&
           a->count == b->count && a->root == b->root;
}

static int compare(struct comm_host *h, const struct job *j, struct err *e)
{
    struct comm *c = h->c;
    if (h->link->notes(c, &j->note, h->notes, e))
        return -1;
    for (int r = 0; r < c->world; r++) {
        const struct comm_note *a = &h->notes[0], *b = &h->notes[r];
        if (same(a, b))
            continue;
        bool known = b->what >= 0 && b->what <= COMM_BROADCAST;
        return err_set(e,
                       "collective %lld is %s of %lld elements on rank 0, but number %lld, %s of "
                       "%lld on rank %d",
                       (long long)a->number, what_name[a->what], (long long)a->count,
                       (long long)b->number, known ? what_name[b->what] : "unknown",
                       (long long)b->count, r);
    }
    return 0;
}

static int run(struct comm_host *h, const struct job *j, struct err *e)
{
    struct comm *c = h->c;
    enum dtype type = (enum dtype)j->note.type;
    int64_t n = j->note.count;
    if (compare(h, j, e))
        return -1;
    switch (j->note.what) {
    case COMM_ALL_REDUCE:
        return h->link->all_reduce(c, j->to, n, type, e);
    case COMM_REDUCE_SCATTER:
        return h->link->reduce_scatter(c, j->to, j->from, n, type, e);
    case COMM_ALL_GATHER:
        return h->link->all_gather(c, j->to, j->from, n, type, e);
    default:
        return h->link->broadcast(c, j->to, n, type, (int)j->note.root, e);
    }
}

static void *work(void *arg)
{
    struct comm_host *h = arg;
    pthread_mutex_lock(&h->lock);
    for (;;) {
        while (!h->first && !h->stop)
            pthread_cond_wait(&h->changed, &h->lock);
        struct job *j = h->first;
        if (!j)
            break;
        h->first = j->next;
        if (!h->first)
            h->last = NULL;
        bool skip = h->failed;
        pthread_mutex_unlock(&h->lock);
        struct err e = {0};
        int rc = skip ? 0 : run(h, j, &e);
        pthread_mutex_lock(&h->lock);
        if (rc && !h->failed) {
            h->failed = true;
            h->fault = e;
        }
        h->done = j->note.number;
        free(j);
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* ---- opening ---- */

int comm_host_open(struct comm *c, struct comm_host **out, const struct comm_link *link,
                   struct err *e)
{
    struct comm_host *h = mem_zero(sizeof *h);
    h->c = c;
    h->link = link;
    h->notes = mem_array((size_t)c->world, sizeof *h->notes);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    *out = h;
    if (thread_start(&h->thread, work, h, e) == 0)
        return 0;
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h->notes);
    free(h);
    *out = NULL;
    return -1;
}

void comm_host_close(struct comm_host *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->stop = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h->notes);
    free(h);
}

/* ---- rows of comm_ops ---- */

/* t: what is counted: the whole of what is summed or sent, else a rank's part. */
static ticket post(struct comm *c, int what, const struct tensor *t, int root, void *to,
                   const void *from)
{
    struct comm_host *h = host_of(c);
    struct job *j = mem_alloc(sizeof *j);
    *j = (struct job){
        .note = {.what = what, .type = t->type, .count = tensor_count(t), .root = root},
        .to = to,
        .from = from};
    pthread_mutex_lock(&h->lock);
    j->note.number = ++h->queued;
    if (h->last)
        h->last->next = j;
    else
        h->first = j;
    h->last = j;
    ticket number = (ticket)j->note.number;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return number;
}

ticket comm_host_all_reduce(struct comm *c, struct tensor *t, ticket after)
{
    (void)after;
    return post(c, COMM_ALL_REDUCE, t, 0, t->data, NULL);
}

ticket comm_host_reduce_scatter(struct comm *c, struct tensor *part, const struct tensor *whole,
                                ticket after)
{
    (void)after;
    return post(c, COMM_REDUCE_SCATTER, part, 0, part->data, whole->data);
}

ticket comm_host_all_gather(struct comm *c, struct tensor *whole, const struct tensor *part,
                            ticket after)
{
    (void)after;
    return post(c, COMM_ALL_GATHER, part, 0, whole->data, part->data);
}

ticket comm_host_broadcast(struct comm *c, struct tensor *t, int root, ticket after)
{
    (void)after;
    return post(c, COMM_BROADCAST, t, root, t->data, NULL);
}

void comm_host_wait(struct comm *c, ticket t)
{
    struct comm_host *h = host_of(c);
    double before = clock_now();
    pthread_mutex_lock(&h->lock);
    bool waits = h->done < (int64_t)t;
    while (h->done < (int64_t)t && h->done < h->queued)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
    if (waits)
        c->waited += clock_now() - before;
}

int comm_host_sync(struct comm *c, struct err *e)
{
    struct comm_host *h = host_of(c);
    comm_host_wait(c, (ticket)INT64_MAX);
    pthread_mutex_lock(&h->lock);
    if (h->failed && !c->failed) {
        c->failed = true;
        c->fault = h->fault;
    }
    pthread_mutex_unlock(&h->lock);
    if (!c->failed)
        return 0;
    if (rendezvous_failed(c->meet)) /* the cause, not its echo */
        return rendezvous_why(c->meet, e);
    *e = c->fault;
    return err_wrap(e, "comm %s", c->ops->name);
}

/* ---- sums ---- */

static float from_bf16(uint16_t v)
{
    uint32_t u = (uint32_t)v << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* To nearest, ties to even; NaN stays NaN. */
static uint16_t to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1)) >> 16);
}

/* Binary16 of IEEE 754 by hand: the compiler's type is not there on every machine. */
static float from_f16(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000u) << 16, exp = v >> 10 & 0x1Fu, man = v & 0x3FFu, u;
    float f;
    if (exp == 0) {
        f = (float)man * 0x1p-24f;
        return sign ? -f : f;
    }
    u = sign | (exp == 31 ? 0x7F800000u : (exp + 112) << 23) | man << 13;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint16_t to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
    u &= 0x7FFFFFFFu;
    if (u > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u);
    if (u >= 0x477FF000u) /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7C00u);
    if (u < 0x38800000u) { /* subnormal: adding 0.5 puts the bits where rounding is right */
        float a;
        memcpy(&a, &u, sizeof a);
        a += 0.5f;
        memcpy(&u, &a, sizeof u);
        return (uint16_t)(sign | (u - 0x3F000000u));
    }
    return (uint16_t)(sign | ((u - 0x38000000u + 0xFFFu + (u >> 13 & 1)) >> 13));
}

static void sum_half(enum dtype type, uint16_t *out, const uint16_t *in, int64_t stride, int world,
                     int64_t n)
{
    bool bf = type == DTYPE_BF16;
    for (int64_t i = 0; i < n; i++) {
        float s = bf ? from_bf16(in[i]) : from_f16(in[i]);
        for (int r = 1; r < world; r++) {
            uint16_t v = in[(int64_t)r * stride + i];
            s += bf ? from_bf16(v) : from_f16(v);
        }
        out[i] = bf ? to_bf16(s) : to_f16(s);
    }
}

void comm_host_sum(enum dtype type, void *out, const void *in, int64_t stride, int world, int64_t n)
{
    const float *v = in;
    float *o = out;
    if (type != DTYPE_F32) {
        sum_half(type, out, in, stride, world, n);
        return;
    }
    if (o != v)
        memcpy(o, v, (size_t)n * sizeof *o);
    for (int r = 1; r < world; r++)
        for (int64_t i = 0; i < n; i++)
            o[i] += v[(int64_t)r * stride + i];
}

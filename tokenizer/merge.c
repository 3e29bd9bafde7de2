/* merge: the pair table and the two merge loops.
 *
 * Most pieces have fewer than ten bytes; for them a scan over an array of ranks beats every
 * cleverer structure. From MERGE_SCAN bytes on a binary heap of (rank, position) over a linked list
 * keeps a piece of a million equal characters at n log n: entries go stale when a neighbour merges
 * and are dropped when they surface.
 */
#include "tokenizer/merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { MERGE_SCAN = 96 };

#define PAIR_EMPTY UINT64_MAX

static uint64_t pair_slot(uint64_t key, uint64_t mask)
{
    key *= 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio: the high bits depend on all of the key */
    return (key ^ (key >> 32)) & mask;
}

static void pair_resize(struct pair_table *t, uint64_t slots)
{
    struct pair_table bigger = {.mask = slots - 1};
    bigger.v = mem_alloc(slots * sizeof *bigger.v);
    memset(bigger.v, 0xff, slots * sizeof *bigger.v);
    for (uint64_t i = 0; t->v && i <= t->mask; i++) {
        if (t->v[i].key == PAIR_EMPTY)
            continue;
        uint64_t at = pair_slot(t->v[i].key, bigger.mask);
        while (bigger.v[at].key != PAIR_EMPTY)
            at = (at + 1) & bigger.mask;
        bigger.v[at] = t->v[i];
    }
    bigger.n = t->n;
    free(t->v);
    *t = bigger;
}

int pair_add(struct pair_table *t, uint32_t left, uint32_t right, uint32_t rank, uint32_t id)
{
    uint64_t key = (uint64_t)left << 32 | right, at;
    if (!t->v || (t->n + 1) * 4 > (t->mask + 1) * 3)
        pair_resize(t, t->v ? (t->mask + 1) * 2 : 1024);
    for (at = pair_slot(key, t->mask); t->v[at].key != PAIR_EMPTY; at = (at + 1) & t->mask) {
        if (t->v[at].key == key)
            return 0;
    }
    t->v[at] = (struct pair){.key = key, .rank = rank, .id = id};
    t->n++;
    return 1;
}

const struct pair *pair_find(const struct pair_table *t, uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    if (!t->v)
        return NULL;
    for (uint64_t at = pair_slot(key, t->mask); t->v[at].key != PAIR_EMPTY; at = (at + 1) & t->mask)
        if (t->v[at].key == key)
            return &t->v[at];
    return NULL;
}

void pair_release(struct pair_table *t)
{
    free(t->v);
    *t = (struct pair_table){0};
}

void merge_release(struct merge_scratch *s)
{
    free(s->p);
    *s = (struct merge_scratch){0};
}

/* The rank of a pair below the limit, and what it becomes. */
static uint32_t rank_of(const struct pair_table *t, int32_t left, int32_t right, uint32_t limit,
                        uint32_t *id)
{
    const struct pair *p = pair_find(t, (uint32_t)left, (uint32_t)right);
    if (!p || p->rank >= limit)
        return PAIR_NONE;
    *id = p->id;
    return p->rank;
}

static size_t merge_scan(const struct pair_table *t, int32_t *ids, size_t n, uint32_t limit,
                         struct merge_scratch *s)
{
    uint32_t rank[MERGE_SCAN + 1], become[MERGE_SCAN + 1];
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = rank_of(t, ids[i], ids[i + 1], limit, &become[i]);
    s->work += n;
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (rank[i] < rank[best])
                best = i;
        }
        s->work += n;
        if (rank[best] == PAIR_NONE)
            break;
        ids[best] = (int32_t)become[best];
        n--;
        /* Position best + 1 is gone: everything behind it moves up. */
        memmove(ids + best + 1, ids + best + 2, (n - best - 1) * sizeof *ids);
        memmove(rank + best + 1, rank + best + 2, (n - best - 1) * sizeof *rank);
        memmove(become + best + 1, become + best + 2, (n - best - 1) * sizeof *become);
        rank[best] = PAIR_NONE;
        if (best + 1 < n)
            rank[best] = rank_of(t, ids[best], ids[best + 1], limit, &become[best]);
        if (best > 0)
            rank[best - 1] = rank_of(t, ids[best - 1], ids[best], limit, &become[best - 1]);
    }
    return n;
}

/* ---- the heap ---------------------------------------------------------------------------- */

/* One position of a long piece. A merged-away position has rank PAIR_NONE for ever. */
struct part {
    uint32_t prev, next; /* positions; PAIR_NONE at the ends */
    uint32_t rank, become;
};
struct merge_heap {
    uint64_t *v; /* rank << 32 | position: the smallest is the left-most of the smallest rank */
    size_t n;
    uint64_t moves;
};

static void heap_sink(struct merge_heap *h, size_t at)
{
    uint64_t x = h->v[at];
    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= h->n)
            break;
        if (child + 1 < h->n && h->v[child + 1] < h->v[child])
            child++;
        if (h->v[child] >= x)
            break;
        h->v[at] = h->v[child];
        at = child;
        h->moves++;
    }
    h->v[at] = x;
}

static void heap_push(struct merge_heap *h, uint64_t x)
{
    size_t at = h->n++;
    while (at > 0 && h->v[(at - 1) / 2] > x) {
        h->v[at] = h->v[(at - 1) / 2];
        at = (at - 1) / 2;
        h->moves++;
    }
    h->v[at] = x;
}

static uint64_t heap_pop(struct merge_heap *h)
{
    uint64_t top = h->v[0];
    h->v[0] = h->v[--h->n];
    if (h->n > 0)
        heap_sink(h, 0);
    return top;
}

static void repair(const struct pair_table *t, const int32_t *ids, struct part *part, uint32_t at,
                   uint32_t limit, struct merge_heap *h)
{
    uint32_t next = part[at].next;
    part[at].rank =
        next == PAIR_NONE ? PAIR_NONE : rank_of(t, ids[at], ids[next], limit, &part[at].become);
    if (part[at].rank != PAIR_NONE)
        heap_push(h, (uint64_t)part[at].rank << 32 | at);
}

static size_t merge_heap(const struct pair_table *t, int32_t *ids, size_t n, uint32_t limit,
                         struct merge_scratch *s)
{
    /* Each merge pushes at most two entries and pops one, so 2n bounds the heap. */
    size_t need = n * sizeof(struct part) + 2 * n * sizeof(uint64_t), left = n;
    if (s->cap < need) {
        free(s->p);
        s->p = mem_alloc(need);
        s->cap = need;
    }
    struct merge_heap h = {.v = s->p};
    struct part *part = (struct part *)(h.v + 2 * n);
    for (size_t i = 0; i < n; i++) {
        part[i].prev = i > 0 ? (uint32_t)i - 1 : PAIR_NONE;
        part[i].next = i + 1 < n ? (uint32_t)i + 1 : PAIR_NONE;
        part[i].rank =
            i + 1 < n ? rank_of(t, ids[i], ids[i + 1], limit, &part[i].become) : PAIR_NONE;
        if (part[i].rank != PAIR_NONE)
            h.v[h.n++] = (uint64_t)part[i].rank << 32 | i;
    }
    for (size_t i = h.n / 2; i-- > 0;)
        heap_sink(&h, i);
    s->work += n;
    while (h.n > 0) {
        uint64_t top = heap_pop(&h);
        uint32_t at = (uint32_t)top, gone;
        s->work++;
        if (part[at].rank != (uint32_t)(top >> 32))
            continue; /* stale: a neighbour merged since */
        gone = part[at].next;
        ids[at] = (int32_t)part[at].become;
        part[at].next = part[gone].next;
        part[gone].rank = PAIR_NONE;
        if (part[at].next != PAIR_NONE)
            part[part[at].next].prev = at;
        left--;
        repair(t, ids, part, at, limit, &h);
        if (part[at].prev != PAIR_NONE)
            repair(t, ids, part, part[at].prev, limit, &h);
        s->work += 2;
    }
    s->work += h.moves;
    for (size_t i = 0, to = 0; to < left; i = part[i].next)
        ids[to++] = ids[i];
    return left;
}

size_t merge_ids(const struct pair_table *t, int32_t *ids, size_t n, uint32_t limit,
                 struct merge_scratch *s)
{
    return n <= MERGE_SCAN ? merge_scan(t, ids, n, limit, s) : merge_heap(t, ids, n, limit, s);
}

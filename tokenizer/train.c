/* train: counting pieces, then merging with incremental pair counts.
 *
 * All distinct pieces lie behind each other in one array of token ids; prev and next link the
 * positions of a piece that are still alive. Each pair knows its count and the positions of its left
 * half. A merge touches only those positions: it lowers the counts of the pairs that end, raises
 * those that begin. A heap orders pairs by (count, smaller pair); counts that fell since an entry
 * was pushed are noticed when it surfaces, counts never rise after the round in which a pair was
 * born (both its halves exist then, and later merges only consume them), so entries are upper bounds.
 */
#include "tokenizer/train.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#define NOWHERE UINT32_MAX

/* ---- distinct pieces ---------------------------------------------------------------------- */

struct piece {
    size_t at; /* in bytes */
    uint32_t n;
    uint32_t tag; /* of its hash, so that most compares end early */
    int64_t count;
};
struct trainer {
    struct split *split;
    struct splitter *splitter;
    char *bytes; /* of the pieces, one behind the other */
    size_t nbytes, bytes_cap;
    struct piece *piece;
    size_t npiece, piece_cap;
    uint32_t *slot; /* piece + 1, 0 empty */
    uint64_t mask;
    int64_t seen;
};

struct trainer *trainer_new(const struct split_pattern *p, struct err *e)
{
    struct trainer *t = mem_zero(sizeof *t);
    t->split = p ? split_new(p, e) : NULL;
    if (!t->split) {
        free(t);
        return NULL;
    }
    t->splitter = splitter_new(t->split, false);
    t->mask = (1u << 16) - 1;
    t->slot = mem_array(t->mask + 1, sizeof *t->slot);
    return t;
}

void trainer_free(struct trainer *t)
{
    if (!t)
        return;
    splitter_free(t->splitter);
    split_free(t->split);
    free(t->bytes);
    free(t->piece);
    free(t->slot);
    free(t);
}

static void grow_slots(struct trainer *t)
{
    uint64_t mask = t->mask * 2 + 1;
    uint32_t *slot = mem_array(mask + 1, sizeof *slot);
    for (size_t i = 0; i < t->npiece; i++) {
        const struct piece *p = &t->piece[i];
        uint64_t at = hash64(t->bytes + p->at, p->n, 0) & mask;
        while (slot[at])
            at = (at + 1) & mask;
        slot[at] = (uint32_t)i + 1;
    }
    free(t->slot);
    t->slot = slot;
    t->mask = mask;
}

static void add_piece(struct trainer *t, const char *p, size_t n)
{
    uint64_t h = hash64(p, n, 0), at = h & t->mask;
    uint32_t tag = (uint32_t)(h >> 32);
    t->seen++;
    for (; t->slot[at]; at = (at + 1) & t->mask) {
        struct piece *q = &t->piece[t->slot[at] - 1];
        if (q->tag == tag && q->n == n && memcmp(t->bytes + q->at, p, n) == 0) {
            q->count++;
            return;
        }
    }
    if (t->npiece == t->piece_cap) {
        t->piece_cap = t->piece_cap ? t->piece_cap * 2 : 4096;
        t->piece = mem_grow(t->piece, t->piece_cap * sizeof *t->piece);
    }
    if (t->bytes_cap - t->nbytes < n) {
        t->bytes_cap = (t->bytes_cap + n) * 2 + 65536;
        t->bytes = mem_grow(t->bytes, t->bytes_cap);
    }
    memcpy(t->bytes + t->nbytes, p, n);
    t->piece[t->npiece++] = (struct piece){t->nbytes, (uint32_t)n, tag, 1};
    t->nbytes += n;
    t->slot[at] = (uint32_t)t->npiece;
    if (t->npiece * 2 > t->mask)
        grow_slots(t);
}

int trainer_add(struct trainer *t, struct str text, struct err *e)
{
    size_t good = utf8_valid(text), end;
    if (good < text.n)
        return err_set(e, "byte %zu is not UTF-8", good);
    if (text.n >= NOWHERE - t->nbytes) /* positions are 32 bits wide */
        return err_set(e,
                       "more than 4 GiB of text at once or of distinct pieces: train on less text");
    for (size_t at = 0; at < text.n; at = end) {
        if (split_next(t->splitter, text, at, &end, e))
            return -1;
        add_piece(t, text.p + at, end - at);
    }
    return 0;
}

int64_t trainer_pieces(const struct trainer *t)
{
    return t->seen;
}

int64_t trainer_distinct(const struct trainer *t)
{
    return (int64_t)t->npiece;
}

/* ---- merging ------------------------------------------------------------------------------ */

struct count {
    uint64_t pair; /* left << 32 | right */
    int64_t count;
    uint32_t *at; /* positions of the left half, rising; some may be stale */
    uint32_t n, filled;
};
struct found { /* an occurrence that began in this round */
    uint32_t count, at;
};
struct entry {
    int64_t count;
    uint64_t pair;
    uint32_t which; /* in counts */
};
struct merger {
    uint32_t *id, *prev, *next, *owner; /* by position; owner: its piece */
    size_t n;
    const struct piece *piece;
    struct count *counts;
    size_t ncounts, counts_cap;
    uint32_t *slot; /* hash of pairs to counts + 1 */
    uint64_t mask;
    struct found *found;
    size_t nfound, found_cap;
    struct entry *heap;
    size_t nheap, heap_cap;
};

static uint64_t pair_hash(uint64_t pair)
{
    pair *= 0x9e3779b97f4a7c15u;
    return pair ^ pair >> 32;
}

static void grow_counts(struct merger *m)
{
    m->counts_cap = m->counts_cap ? m->counts_cap * 2 : 1u << 15;
    m->counts = mem_grow(m->counts, m->counts_cap * sizeof *m->counts);
    free(m->slot);
    m->mask = m->counts_cap * 2 - 1;
    m->slot = mem_array(m->mask + 1, sizeof *m->slot);
    for (size_t i = 0; i < m->ncounts; i++) {
        uint64_t at = pair_hash(m->counts[i].pair) & m->mask;
        while (m->slot[at])
            at = (at + 1) & m->mask;
        m->slot[at] = (uint32_t)i + 1;
    }
}

static uint32_t count_of(struct merger *m, uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 32 | right, at;
    if (m->ncounts == m->counts_cap)
        grow_counts(m);
    for (at = pair_hash(pair) & m->mask; m->slot[at]; at = (at + 1) & m->mask) {
        if (m->counts[m->slot[at] - 1].pair == pair)
            return m->slot[at] - 1;
    }
    m->counts[m->ncounts] = (struct count){.pair = pair};
    m->slot[at] = (uint32_t)++m->ncounts;
    return (uint32_t)m->ncounts - 1;
}

static bool above(const struct entry *a, const struct entry *b)
{
    return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static void heap_sink(struct merger *m, struct entry x)
{
    size_t at = 0;
    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= m->nheap)
            break;
        if (child + 1 < m->nheap && above(&m->heap[child + 1], &m->heap[child]))
            child++;
        if (!above(&m->heap[child], &x))
            break;
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = x;
}

static void heap_push(struct merger *m, struct entry x)
{
    size_t at = m->nheap++;
    if (m->nheap > m->heap_cap) {
        m->heap_cap = m->heap_cap ? m->heap_cap * 2 : 1u << 15;
        m->heap = mem_grow(m->heap, m->heap_cap * sizeof *m->heap);
    }
    while (at > 0 && above(&x, &m->heap[(at - 1) / 2])) {
        m->heap[at] = m->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    m->heap[at] = x;
}

/* The pair at position `at` begins: counted, and remembered for settle(). */
static void begins(struct merger *m, uint32_t at)
{
    uint32_t next = m->next[at], c;
    if (next == NOWHERE)
        return;
    c = count_of(m, m->id[at], m->id[next]);
    m->counts[c].count += m->piece[m->owner[at]].count;
    m->counts[c].n++;
    if (m->nfound == m->found_cap) {
        m->found_cap = m->found_cap ? m->found_cap * 2 : 4096;
        m->found = mem_grow(m->found, m->found_cap * sizeof *m->found);
    }
    m->found[m->nfound++] = (struct found){c, at};
}

static void ends(struct merger *m, uint32_t at)
{
    uint32_t c;
    if (at == NOWHERE || m->next[at] == NOWHERE)
        return;
    c = count_of(m, m->id[at],
                 m->id[m->next[at]]); /* may move the counts: not inside the next line */
    m->counts[c].count -= m->piece[m->owner[at]].count;
}

/* Gives the pairs of this round their positions and their place in the heap. */
static void settle(struct merger *m)
{
    for (size_t i = 0; i < m->nfound; i++) {
        struct count *c = &m->counts[m->found[i].count];
        if (!c->at) {
            c->at = mem_alloc(c->n * sizeof *c->at);
            c->filled = 0;
            if (c->count > 0)
                heap_push(m, (struct entry){c->count, c->pair, m->found[i].count});
        }
        assert(c->filled < c->n); /* all of a pair's positions begin in one round */
        c->at[c->filled++] = m->found[i].at;
    }
    m->nfound = 0;
}

static void merge_at(struct merger *m, uint32_t at, uint32_t made)
{
    uint32_t gone = m->next[at], prev = m->prev[at], next = m->next[gone];
    ends(m, prev);
    ends(m, at);
    ends(m, gone);
    m->id[at] = made;
    m->id[gone] = NOWHERE;
    m->next[at] = next;
    if (next != NOWHERE)
        m->prev[next] = at;
    if (prev != NOWHERE)
        begins(m, prev);
    begins(m, at);
}

static void merger_init(struct merger *m, const struct trainer *t)
{
    *m = (struct merger){.piece = t->piece, .n = t->nbytes};
    m->id = mem_array(t->nbytes + 1, sizeof *m->id);
    m->prev = mem_array(t->nbytes + 1, sizeof *m->prev);
    m->next = mem_array(t->nbytes + 1, sizeof *m->next);
    m->owner = mem_array(t->nbytes + 1, sizeof *m->owner);
    for (size_t i = 0; i < t->npiece; i++) {
        const struct piece *p = &t->piece[i];
        for (uint32_t k = 0; k < p->n; k++) {
            uint32_t at = (uint32_t)p->at + k;
            m->id[at] = (unsigned char)t->bytes[at];
            m->prev[at] = k > 0 ? at - 1 : NOWHERE;
            m->next[at] = k + 1 < p->n ? at + 1 : NOWHERE;
            m->owner[at] = (uint32_t)i;
        }
    }
    for (size_t at = 0; at < m->n; at++)
        begins(m, (uint32_t)at);
    settle(m);
}

static void merger_release(struct merger *m)
{
    for (size_t i = 0; i < m->ncounts; i++)
        free(m->counts[i].at);
    free(m->counts);
    free(m->slot);
    free(m->found);
    free(m->heap);
    free(m->id);
    free(m->prev);
    free(m->next);
    free(m->owner);
}

/* The pair with the largest count, removed from the heap; NULL if there is none left. */
static struct count *best(struct merger *m)
{
    while (m->nheap > 0) {
        struct entry top = m->heap[0];
        struct count *c = &m->counts[top.which];
        struct entry again = {c->count, top.pair, top.which};
        if (c->count == top.count || c->count <= 0) {
            struct entry last = m->heap[--m->nheap];
            if (m->nheap > 0)
                heap_sink(m, last);
            if (c->count > 0)
                return c;
        } else {
            heap_sink(m, again); /* it fell since it was pushed */
        }
    }
    return NULL;
}

int trainer_run(struct trainer *t, size_t count, struct merge **out, size_t *n, struct err *e)
{
    struct merger m;
    struct progress bar = {0};
    int r = 0;
    *n = 0;
    *out = mem_array(count + 1, sizeof **out);
    merger_init(&m, t);
    progress_begin(&bar, "vocabulary", "merges", (double)count, 0);
    while (*n < count && r == 0) {
        struct count *c = best(&m);
        uint32_t made = (uint32_t)(256 + *n), left, right, *at, places;
        if (!c) {
            r = err_set(e, "the text has only %zu tokens to give with its 256 bytes, not %zu",
                        256 + *n, 256 + count);
            break;
        }
        left = (uint32_t)(c->pair >> 32);
        right = (uint32_t)c->pair;
        at = c->at;
        places = c->n;
        c->at = NULL; /* c moves when counts grow */
        for (uint32_t i = 0; i < places; i++) {
            uint32_t next = m.next[at[i]];
            if (m.id[at[i]] == left && next != NOWHERE && m.id[next] == right)
                merge_at(&m, at[i], made);
        }
        free(at);
        settle(&m);
        (*out)[(*n)++] = (struct merge){(int32_t)left, (int32_t)right, (int32_t)made};
        if (*n % 256 == 0) {
            progress_set(&bar, (double)*n, NULL);
            if (interrupt_raised())
                r = err_code(e, EXIT_INCOMPLETE, "interrupted");
        }
    }
    progress_end(&bar);
    merger_release(&m);
    if (r < 0) {
        free(*out);
        *out = NULL;
    }
    return r;
}

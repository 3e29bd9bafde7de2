/* mem: memory that is there or the process dies, and arenas; see mem.h. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* abort() and not exit(): only main.c ends the process politely, and this is not polite. */
__attribute__((noreturn)) static void no_memory(size_t n)
{
    fprintf(stderr, "assay: out of memory: %zu bytes were wanted\n", n);
    abort();
}

void *mem_alloc(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p)
        no_memory(n);
    return p;
}

void *mem_zero(size_t n)
{
    void *p = calloc(1, n ? n : 1);
    if (!p)
        no_memory(n);
    return p;
}

void *mem_array(size_t count, size_t n)
{
    size_t all;
    if (__builtin_mul_overflow(count, n, &all))
        no_memory(SIZE_MAX);
    return mem_zero(all);
}

void *mem_grow(void *p, size_t n)
{
    p = realloc(p, n ? n : 1);
    if (!p)
        no_memory(n);
    return p;
}

void *mem_aligned(size_t align, size_t n)
{
    void *p;
    if (posix_memalign(&p, align, n ? n : align) != 0)
        no_memory(n);
    memset(p, 0, n);
    return p;
}

char *mem_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(mem_alloc(n), s, n);
}

char *mem_printf(const char *fmt, ...)
{
    va_list ap;
    char *p = NULL;
    va_start(ap, fmt);
    int n = vasprintf(&p, fmt, ap);
    va_end(ap);
    if (n < 0)
        no_memory(0);
    return p;
}

/* Blocks are chained newest first; a request larger than a block gets its own. */
struct arena_block {
    struct arena_block *next;
    size_t n, cap;
    _Alignas(16) unsigned char bytes[];
};

#define ARENA_BLOCK ((size_t)64 * 1024)

void *arena_alloc(struct arena *a, size_t n)
{
    size_t want = (n + 15) & ~(size_t)15;
    if (want < n)
        no_memory(n);
    struct arena_block *b = a->head;
    if (!b || b->cap - b->n < want) {
        size_t cap = want > ARENA_BLOCK ? want : ARENA_BLOCK;
        struct arena_block *fresh = mem_alloc(sizeof *fresh + cap);
        fresh->n = 0;
        fresh->cap = cap;
        /* A big one goes behind the head, so that the head's room is not lost. */
        if (b && want > ARENA_BLOCK / 4) {
            fresh->next = b->next;
            b->next = fresh;
        } else {
            fresh->next = b;
            a->head = fresh;
        }
        b = fresh;
    }
    void *p = b->bytes + b->n;
    b->n += want;
    a->used += want;
    memset(p, 0, n);
    return p;
}

void *arena_array(struct arena *a, size_t count, size_t n)
{
    size_t all;
    if (__builtin_mul_overflow(count, n, &all))
        no_memory(SIZE_MAX);
    return arena_alloc(a, all);
}

char *arena_bytes(struct arena *a, const void *p, size_t n)
{
    char *q = arena_alloc(a, n + 1);
    if (n)
        memcpy(q, p, n);
    return q;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_bytes(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        no_memory(0);
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

void arena_release(struct arena *a)
{
    for (struct arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    a->head = NULL;
    a->used = 0;
}

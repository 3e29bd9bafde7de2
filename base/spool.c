/* spool: see base/spool.h. */
#include "base/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { PAGE = 4096, PAGES = 256, FIRST_SLOTS = 1024 };

struct spool_page {
    uint64_t no; /* 1 + number of the page that is here; 0: none */
    bool dirty;
    unsigned char *p;
};

/* ---- the file ------------------------------------------------------------------------------- */

static int scratch_in(const char *dir)
{
    char path[4096];
    size_t n = strlen(dir);
    if (n > sizeof path - 32)
        return -1;
    memcpy(path, dir, n);
    memcpy(path + n, "/assay-spool.XXXXXX", 20);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int open_scratch(struct spool *s)
{
    const char *given = getenv("TMPDIR"), *dir = given && *given ? given : "/var/tmp";
    int fd = scratch_in(dir);
    if (fd < 0 && dir != given)
        fd = scratch_in(dir = "/tmp");
    if (fd < 0) {
        s->failed = true;
        err_sys(&s->why, "no scratch file can be made in %s (set TMPDIR to a folder with room)",
                dir);
        return -1;
    }
    s->fd = 1 + fd;
    return 0;
}

static void fail(struct spool *s, const char *what)
{
    if (!errno)
        errno = EIO;
    s->failed = true;
    err_sys(&s->why, "%s a scratch file (TMPDIR says where it lies)", what);
}

static void page_out(struct spool *s, struct spool_page *g)
{
    if (!g->dirty || s->failed || (!s->fd && open_scratch(s)))
        return;
    for (size_t done = 0; done < PAGE;) {
        errno = 0;
        ssize_t n = pwrite(s->fd - 1, g->p + done, PAGE - done, (off_t)((g->no - 1) * PAGE + done));
        if (n <= 0 && errno != EINTR) {
            fail(s, "write to");
            return;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    g->dirty = false;
}

static void page_in(struct spool *s, struct spool_page *g, uint64_t no)
{
    size_t done = 0;
    while (s->fd && !s->failed && done < PAGE) {
        errno = 0;
        ssize_t n = pread(s->fd - 1, g->p + done, PAGE - done, (off_t)(no * PAGE + done));
        if (n == 0)
            break; /* behind the end: zeros */
        if (n < 0 && errno != EINTR) {
            fail(s, "read from");
            done = 0;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    memset(g->p + done, 0, PAGE - done);
    g->no = no + 1;
}

static struct spool_page *page_of(struct spool *s, uint64_t no)
{
    if (!s->page)
        s->page = mem_array(PAGES, sizeof *s->page);
    struct spool_page *g = &s->page[no % PAGES];
    if (g->no == no + 1)
        return g;
    if (!g->p)
        g->p = mem_alloc(PAGE);
    if (g->no)
        page_out(s, g);
    g->dirty = false;
    page_in(s, g, no);
    return g;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

void spool_read(struct spool *s, uint64_t at, void *p, size_t n)
{
    for (unsigned char *to = p; n;) {
        size_t off = at % PAGE, k = PAGE - off < n ? PAGE - off : n;
        if (s->failed || at >= s->end)
            memset(to, 0, k);
        else
            memcpy(to, page_of(s, at / PAGE)->p + off, k);
        to += k;
        at += k;
        n -= k;
    }
}

void spool_write(struct spool *s, uint64_t at, const void *p, size_t n)
{
    if (at + n > s->end)
        s->end = at + n;
    for (const unsigned char *from = p; n && !s->failed;) {
        size_t off = at % PAGE, k = PAGE - off < n ? PAGE - off : n;
        struct spool_page *g = page_of(s, at / PAGE);
        memcpy(g->p + off, from, k);
        g->dirty = true;
        from += k;
        at += k;
        n -= k;
    }
}

uint64_t spool_append(struct spool *s, const void *p, size_t n)
{
    uint64_t at = s->end;
    spool_write(s, at, p, n);
    return at;
}

int spool_check(const struct spool *s, struct err *e)
{
    if (!s->failed)
        return 0;
    *e = s->why;
    return -1;
}

void spool_release(struct spool *s)
{
    for (size_t i = 0; s->page && i < PAGES; i++)
        free(s->page[i].p);
    free(s->page);
    if (s->fd)
        close(s->fd - 1);
    *s = (struct spool){0};
}

/* ---- the table ------------------------------------------------------------------------------ */

struct slot {
    uint64_t hash, value; /* value: 1 + what was added; 0: free */
};

static struct slot slot_at(struct spool_index *x, uint64_t i)
{
    struct slot s;
    spool_read(&x->slots, (i & (x->cap - 1)) * sizeof s, &s, sizeof s);
    return s;
}

/* Neighbours stay together: linear probing costs no other page. A failed spool reads as free. */
static void put(struct spool_index *x, struct slot new)
{
    uint64_t i = new.hash;
    while (slot_at(x, i).value)
        i++;
    spool_write(&x->slots, (i & (x->cap - 1)) * sizeof new, &new, sizeof new);
}

void spool_index_add(struct spool_index *x, uint64_t hash, uint64_t value)
{
    if (2 * x->n >= x->cap) {
        struct spool_index old = *x;
        *x = (struct spool_index){.cap = old.cap ? 2 * old.cap : FIRST_SLOTS, .n = old.n};
        for (uint64_t i = 0; i < old.cap; i++) {
            struct slot s = slot_at(&old, i);
            if (s.value)
                put(x, s);
        }
        if (old.slots.failed && !x->slots.failed) {
            x->slots.failed = true;
            x->slots.why = old.slots.why;
        }
        spool_index_release(&old);
    }
    put(x, (struct slot){hash, value + 1});
    x->n++;
}

bool spool_index_next(struct spool_index *x, uint64_t hash, uint64_t *probe, uint64_t *value)
{
    while (x->cap) {
        struct slot s = slot_at(x, hash + (*probe)++);
        if (!s.value)
            return false;
        if (s.hash == hash) {
            *value = s.value - 1;
            return true;
        }
    }
    return false;
}

void spool_index_release(struct spool_index *x)
{
    spool_release(&x->slots);
    *x = (struct spool_index){0};
}

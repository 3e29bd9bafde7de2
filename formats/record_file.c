/* record_file: record files and journals, formats/record.h's layout around the maps of record.c.
 *
 * Reading maps the whole file. A record that reaches beyond the end is a torn tail only if no whole
 * record (length, map, checksum) lies behind it; else its length was damaged and dropping the rest
 * would lose records in silence.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "formats/record.h"
#include "formats/record_head.h"
#include "formats/record_pack.h"

#define MAGIC          "ASSAYREC"
#define FORMAT_VERSION 1
#define HEAD           20 /* bytes before the schema's name */
#define MAX_NAME       64
#define MAX_PAYLOAD    ((size_t)256 << 20)
#define SEARCH_BUDGET  ((size_t)256 << 20) /* bytes that the search behind a torn tail may hash */

#define LET_GO ((size_t)1 << 20) /* bytes, whole pages */

struct records {
    enum record_mode mode;
    char *path;
    const struct schema *schema;
    struct file_map map; /* READ */
    size_t at, let_go;   /* of the next record; bytes of the map that are read and let go */
    bool torn;
    int version;
    struct file_out out; /* WRITE */
    int fd;              /* APPEND, else -1 */
    struct buf frame;
};

static uint32_t get_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void set_u32(char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(v >> 8 * i);
}

/* ---- the header ----------------------------------------------------------------------------- */

static void header_make(const struct schema *s, struct buf *out)
{
    char head[HEAD] = MAGIC;
    set_u32(head + 8, FORMAT_VERSION);
    set_u32(head + 12, (uint32_t)s->version);
    set_u32(head + 16, (uint32_t)strlen(s->name));
    buf_add(out, head, sizeof head);
    buf_addz(out, s->name);
}

/* Checks a header; *size is its length. */
static int header_read(const struct file_map *m, char name[MAX_NAME + 1], int *version,
                       size_t *size, struct err *e)
{
    if (!m->n)
        return err_set(e, "empty, want a record file");
    if (memcmp(m->p, MAGIC, m->n < 8 ? m->n : 8) != 0)
        return err_set(e, "not a record file: it starts with other bytes than " MAGIC);
    if (m->n < HEAD)
        return err_set(e, "cut inside its header: %zu bytes", m->n);
    if (get_u32(m->p + 8) != FORMAT_VERSION)
        return err_set(e, "want record format version %d, file has %lu", FORMAT_VERSION,
                       (unsigned long)get_u32(m->p + 8));
    uint32_t n = get_u32(m->p + 16), v = get_u32(m->p + 12);
    if (n < 1 || n > MAX_NAME)
        return err_set(e, "the schema's name claims %lu bytes, want 1 to %d", (unsigned long)n,
                       MAX_NAME);
    if (m->n < HEAD + n)
        return err_set(e, "cut inside its header: %zu bytes", m->n);
    if (v < 1 || v > 1000000)
        return err_set(e, "schema version %lu is absurd", (unsigned long)v);
    for (uint32_t i = 0; i < n; i++)
        if (m->p[HEAD + i] < 0x20 || m->p[HEAD + i] > 0x7e)
            return err_set(e, "byte %u of the schema's name is not printable ASCII", i);
    memcpy(name, m->p + HEAD, n);
    name[n] = '\0';
    *version = (int)v;
    *size = HEAD + n;
    return 0;
}

/* The header of r->map against r->schema (if it has one). */
static int header_check(struct records *r, struct err *e)
{
    char name[MAX_NAME + 1];
    if (header_read(&r->map, name, &r->version, &r->at, e))
        return err_wrap(e, "%s", r->path);
    if (!r->schema)
        return 0;
    if (strcmp(name, r->schema->name) != 0)
        return err_set(e, "%s: holds %s records, want %s", r->path, name, r->schema->name);
    if (r->version > r->schema->version)
        return err_set(e, "%s: want %s version %d, file has %d", r->path, name, r->schema->version,
                       r->version);
    return 0;
}

/* ---- frames --------------------------------------------------------------------------------- */

/* Whether a whole record with a right checksum starts at byte `at`; costs from *budget. */
static bool whole_at(const struct file_map *m, size_t at, size_t *budget)
{
    if (m->n - at < 9)
        return false;
    size_t len = get_u32(m->p + at);
    unsigned first = m->p[at + 8];
    bool map = (first >= 0x80 && first <= 0x8f) || first == 0xde || first == 0xdf;
    if (!map || len < 1 || len > MAX_PAYLOAD || len > m->n - at - 8 || len > *budget)
        return false;
    *budget -= len;
    return crc32c(0, m->p + at + 8, len) == get_u32(m->p + at + 4);
}

/* Offset of a whole record behind byte `at`, or 0. */
static size_t whole_behind(const struct file_map *m, size_t at)
{
    size_t budget = SEARCH_BUDGET;
    for (size_t i = at + 1; i + 9 <= m->n; i++)
        if (whole_at(m, i, &budget))
            return i;
    return 0;
}

static bool all_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

/* The number, from 1, of the record at r->at. */
static size_t number_of(const struct records *r)
{
    size_t n = 1;
    for (size_t at = HEAD + get_u32(r->map.p + 16); at < r->at; n++)
        at += 8 + (size_t)get_u32(r->map.p + at);
    return n;
}

static int damaged(const struct records *r, const char *why, struct err *e)
{
    return err_set(e, "%s: record %zu at byte %zu is damaged: %s", r->path, number_of(r), r->at,
                   why);
}

/* The bytes from r->at on are no whole record and nothing whole may follow. 0 or -1. */
static int torn_tail(struct records *r, const char *why, struct err *e)
{
    size_t next = whole_behind(&r->map, r->at);
    if (next)
        return err_set(e, "%s: record %zu at byte %zu is damaged (%s): a whole one follows at %zu",
                       r->path, number_of(r), r->at, why, next);
    if (!r->torn)
        log_warn("%s: record %zu, the last, is dropped, %zu bytes from byte %zu on: %s", r->path,
                 number_of(r), r->map.n - r->at, r->at, why);
    r->torn = true;
    return 0;
}

/* What was read needs no memory any more: a long journal is read in constant memory. */
static void let_go(struct records *r)
{
    size_t end = r->at / LET_GO * LET_GO;
    if (end <= r->let_go)
        return;
    madvise((void *)(r->map.p + r->let_go), end - r->let_go, MADV_DONTNEED);
    r->let_go = end;
}

/* The next payload: 1 got, 0 end (or torn tail), -1. */
static int next_frame(struct records *r, struct str *payload, struct err *e)
{
    size_t left = r->map.n - r->at;
    const unsigned char *p = r->map.p + r->at;
    if (!left)
        return 0;
    if (left < 8)
        return torn_tail(r, "its head is cut", e);
    size_t len = get_u32(p);
    if (len == 0 && all_zero(p, left)) /* a power cut may leave a grown file without its bytes */
        return torn_tail(r, "only zeros", e);
    if (len == 0 || len > MAX_PAYLOAD)
        return damaged(r, len ? "it claims more than 256 MiB" : "it claims no bytes", e);
    if (len > left - 8)
        return torn_tail(r, "it reaches beyond the end", e);
    if (crc32c(0, p + 8, len) != get_u32(p + 4)) {
        if (len == left - 8)
            return torn_tail(r, "its checksum is wrong, so its bytes are not those written", e);
        return damaged(r, "its checksum is wrong", e);
    }
    *payload = (struct str){(const char *)p + 8, len};
    let_go(r);
    r->at += 8 + len;
    return 1;
}

int records_next(struct records *r, void *rec, struct arena *a, struct err *e)
{
    struct str payload;
    size_t at = r->at;
    int got = next_frame(r, &payload, e);
    if (got <= 0)
        return got;
    if (record_unpack(r->schema, rec, payload, a, e))
        return err_wrap(e, "%s: record at byte %zu", r->path, at);
    return 1;
}

int records_next_json(struct records *r, struct json **v, struct err *e)
{
    struct str payload;
    size_t at = r->at;
    int got = next_frame(r, &payload, e);
    *v = NULL;
    if (got <= 0)
        return got;
    if (r->schema) {
        struct arena a = {0};
        void *rec = mem_zero(r->schema->size);
        int rc = record_unpack(r->schema, rec, payload, &a, e);
        free(rec);
        arena_release(&a);
        if (rc)
            return err_wrap(e, "%s: record at byte %zu", r->path, at);
    }
    *v = record_unpack_json(payload, e);
    return *v ? 1 : err_wrap(e, "%s: record at byte %zu", r->path, at);
}

/* ---- opening and closing -------------------------------------------------------------------- */

/* Finds the end of the whole records of a journal, or -1. A journal killed inside its header is
 * as good as empty. */
static int journal_end(struct records *r, const struct buf *head, size_t *end, struct err *e)
{
    struct str payload;
    int got;
    *end = 0;
    if (r->map.n < head->n && (!r->map.n || memcmp(r->map.p, head->p, r->map.n) == 0))
        return 0;
    if (header_check(r, e))
        return -1;
    if (r->version < r->schema->version)
        return err_set(e, "%s: cannot append: want %s version %d, file has %d", r->path,
                       r->schema->name, r->schema->version, r->version);
    while ((got = next_frame(r, &payload, e)) > 0)
        ;
    *end = r->at;
    return got;
}

/* The lock comes first: what is cut may not be another writer's record. */
static int open_journal(struct records *r, struct err *e)
{
    struct buf head = {0};
    size_t end;
    int rc = -1;
    if (file_append_open(r->path, -1, &r->fd, e))
        return -1;
    header_make(r->schema, &head);
    if (file_map(r->path, &r->map, e) || journal_end(r, &head, &end, e))
        goto out;
    if (end < r->map.n && ftruncate(r->fd, (off_t)end)) {
        err_sys(e, "cut the torn tail of %s", r->path);
        goto out;
    }
    if (end == 0 && file_append(r->fd, head.p, head.n, r->path, e))
        goto out;
    r->version = r->schema->version;
    rc = 0;
out:
    file_unmap(&r->map);
    buf_release(&head);
    return rc;
}

static int open_artefact(struct records *r, struct err *e)
{
    if (file_create(&r->out, r->path, e))
        return -1;
    r->version = r->schema->version;
    header_make(r->schema, &r->frame);
    return file_puts(&r->out, buf_str(&r->frame), e);
}

struct records *records_open(const char *path, const struct schema *s, enum record_mode mode,
                             struct err *e)
{
    struct records *r = mem_zero(sizeof *r);
    int rc;
    *r = (struct records){.mode = mode, .path = mem_strdup(path), .schema = s, .fd = -1};
    if (mode == RECORD_READ)
        rc = file_map(path, &r->map, e) || header_check(r, e) ? -1 : 0;
    else
        rc = mode == RECORD_WRITE ? open_artefact(r, e) : open_journal(r, e);
    if (!rc)
        return r;
    records_abort(r);
    return NULL;
}

int records_append(struct records *r, const void *rec, struct err *e)
{
    char head[8] = {0};
    buf_cut(&r->frame, 0);
    buf_add(&r->frame, head, sizeof head);
    record_pack(r->schema, rec, &r->frame);
    size_t len = r->frame.n - sizeof head;
    if (len > MAX_PAYLOAD)
        return err_set(e, "%s: a %s of %zu bytes, at most 256 MiB", r->path, r->schema->name, len);
    set_u32(r->frame.p, (uint32_t)len);
    set_u32(r->frame.p + 4, crc32c(0, r->frame.p + 8, len));
    if (r->mode == RECORD_APPEND)
        return file_append(r->fd, r->frame.p, r->frame.n, r->path, e);
    return file_puts(&r->out, buf_str(&r->frame), e);
}

int records_sync(struct records *r, struct err *e)
{
    return r->mode == RECORD_APPEND ? file_append_sync(r->fd, r->path, e) : 0;
}

int records_close(struct records *r, struct err *e)
{
    int rc = 0;
    if (r->mode == RECORD_WRITE)
        rc = file_commit(&r->out, e);
    else if (r->mode == RECORD_APPEND)
        rc = file_append_sync(r->fd, r->path, e);
    records_abort(r);
    return rc;
}

void records_abort(struct records *r)
{
    if (!r)
        return;
    if (r->mode == RECORD_WRITE)
        file_abort(&r->out);
    if (r->fd >= 0)
        close(r->fd);
    file_unmap(&r->map);
    buf_release(&r->frame);
    free(r->path);
    free(r);
}

bool records_torn(const struct records *r)
{
    return r->torn;
}

int records_version(const struct records *r)
{
    return r->version;
}

int record_spare(const char *path, struct err *e)
{
    char head[sizeof MAGIC - 1];
    struct stat st;
    int fd = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd < 0 ? 0 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    if (n <= 0 ||
        memcmp(head, MAGIC, (size_t)n) == 0) /* none, empty, or a record file's beginning */
        return 0;
    return err_code(e, EXIT_USAGE,
                    "%s is there and not a record file of this tool: take another --out, or remove "
                    "it",
                    path);
}

int records_peek(const char *path, char name[MAX_NAME + 1], int *version, struct err *e)
{
    struct file_map m;
    size_t size;
    if (file_map(path, &m, e))
        return -1;
    int rc = header_read(&m, name, version, &size, e);
    file_unmap(&m);
    return rc ? err_wrap(e, "%s", path) : 0;
}

/* ---- one record ----------------------------------------------------------------------------- */

int record_save(const char *path, const struct schema *s, const void *rec, struct err *e)
{
    struct records *r = records_open(path, s, RECORD_WRITE, e);
    if (!r)
        return -1;
    if (records_append(r, rec, e)) {
        records_abort(r);
        return -1;
    }
    return records_close(r, e);
}

/* The only record of a file, whole or without some of its keys. */
static int load_one(struct records *r, const char *const *without, void *rec, struct arena *a,
                    struct err *e)
{
    struct str payload;
    struct buf slim = {0};
    size_t at = r->at;
    int got = next_frame(r, &payload, e), rc = -1;
    if (got < 0)
        return -1;
    if (got == 0 && r->torn) { /* the reason was logged for journals; here it is the error */
        bool whole = r->map.n - at >= 8 && get_u32(r->map.p + at) == r->map.n - at - 8;
        return err_set(e, "%s: no whole %s in it: %s", r->path, r->schema->name,
                       whole ? arena_printf(a, "the checksum of record 1 at byte %zu is wrong", at)
                             : arena_printf(a, "record 1 at byte %zu is cut", at));
    }
    if (got == 0)
        return err_set(e, "%s: no whole %s in it", r->path, r->schema->name);
    if (without && record_slim(payload, without, &slim, e))
        err_wrap(e, "%s: record at byte %zu", r->path, at);
    else if (record_unpack(r->schema, rec, without ? buf_str(&slim) : payload, a, e))
        err_wrap(e, "%s: record at byte %zu", r->path, at);
    else if (r->at < r->map.n && all_zero(r->map.p + r->at, r->map.n - r->at))
        rc = torn_tail(r, "only zeros", e); /* as behind the records of a journal: said once */
    else if (r->at < r->map.n)
        err_set(e, "%s: bytes behind its only record, from byte %zu on", r->path, r->at);
    else
        rc = 0;
    buf_release(&slim);
    return rc;
}

int record_load_without(const char *path, const struct schema *s, const char *const *without,
                        void *rec, struct arena *a, struct err *e)
{
    struct records *r = records_open(path, s, RECORD_READ, e);
    if (!r)
        return -1;
    int rc = load_one(r, without, rec, a, e);
    records_abort(r);
    return rc;
}

int record_load(const char *path, const struct schema *s, void *rec, struct arena *a, struct err *e)
{
    return record_load_without(path, s, NULL, rec, a, e);
}

/* loss_keep: see eval/loss_keep.h. */
#include "eval/loss_keep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/field.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "formats/record.h"

#define SYNC_EVERY 0.1 /* seconds between two fdatasyncs of the journal */
enum { MOST_ROWS = 1 << 30 };

#define AT(m) offsetof(struct loss_row, m)
static const struct field fields[] = {
    {"unit", FIELD_STR, AT(unit), NULL, .help = "window or document"},
    {"row", FIELD_I64, AT(row), NULL, 0, MOST_ROWS, .help = "number of the sequence"},
    {"tokens", FIELD_I64, AT(tokens), NULL, 0, 9e15, .help = "targets that it counts"},
    {"nats", FIELD_F64, AT(nats), NULL, .help = "summed negative log-likelihood, nats"},
    {"nats_end", FIELD_F64, AT(nats_end), "0", .help = "of a document's closing EOT"},
    {0},
};
#undef AT
static const struct schema row_schema = {"loss_row", 1, sizeof(struct loss_row), fields};

static void take(struct loss_keep *k, const struct loss_row *r)
{
    size_t at = (size_t)r->row;
    while (at >= k->cap) {
        size_t cap = k->cap ? 2 * k->cap : 256;
        k->v = mem_grow(k->v, cap * sizeof *k->v);
        memset(k->v + k->cap, 0, (cap - k->cap) * sizeof *k->v);
        k->cap = cap;
    }
    k->n = at < k->n ? k->n : at + 1;
    if (!k->v[at].known) {
        k->kept++;
        k->kept_tokens += r->tokens;
    }
    k->v[at] = *r;
    k->v[at].known = true;
}

/* The file of a rank that is gone may end anywhere: what cannot be read is computed again. */
static void read_one(struct loss_keep *k, const char *path)
{
    struct err e = {0};
    struct loss_row r;
    struct records *in = records_open(path, &row_schema, RECORD_READ, &e);
    int rc = in ? 0 : -1;
    while (in && (rc = records_next(in, &r, &k->arena, &e)) == 1)
        if (isfinite(r.nats) && isfinite(r.nats_end))
            take(k, &r);
    if (rc < 0)
        log_warn("%s; what it would have held is computed again", e.msg);
    records_abort(in);
}

/* Calls each journal of this result with this key, and counts those with another. */
static int each_journal(struct loss_keep *k, void (*fn)(struct loss_keep *, const char *),
                        int64_t *others, struct err *e)
{
    struct strs names = {0};
    const char *dir = path_dir(&k->arena, k->out);
    const char *stem = arena_printf(&k->arena, "%s.", path_base(k->out));
    const char *mine = arena_printf(&k->arena, "%s%s.", stem, k->key);
    *others = 0;
    if (file_list(dir, &names, &k->arena, e))
        return -1;
    for (size_t i = 0; i < names.n; i++) {
        if (!str_starts(names.v[i], stem) || !str_ends(names.v[i], ".journal"))
            continue;
        if (str_starts(names.v[i], mine))
            fn(k, path_join(&k->arena, dir, str_dup(&k->arena, names.v[i])));
        else
            ++*others;
    }
    return 0;
}

static int barrier(const struct loss_keep *k, struct err *e)
{
    return k->meet ? rendezvous_barrier(k->meet, e) : 0;
}

int loss_keep_open(struct loss_keep *k, const char *out, struct str identity,
                   struct rendezvous *meet, struct err *e)
{
    char hex[SHA256_HEX], rank[32] = "";
    int64_t others = 0;
    *k = (struct loss_keep){.meet = meet, .out = out};
    sha256_hex(identity, hex);
    memcpy(k->key, hex, sizeof k->key - 1);
    if (meet && meet->rank)
        snprintf(rank, sizeof rank, ".%d", meet->rank);
    k->path = arena_printf(&k->arena, "%s.%s%s.journal", out, k->key, rank);
    k->journal = records_open(k->path, &row_schema, RECORD_APPEND, e);
    if (!k->journal && !*rank && file_exists(k->path)) {
        struct err why = *e;
        return err_code(e, why.code,
                        "%s. It is what a run that was stopped has left: delete it, and what it "
                        "would have held is computed again",
                        why.msg);
    }
    if (!k->journal && !*rank)
        return -1;
    if (!k->journal) { /* on another machine the folder may not be there */
        log_warn("%s; this rank keeps nothing", e->msg);
        *e = (struct err){0};
    }
    /* Nobody reads before everybody has cut the torn tail, or writes before everybody has read. */
    if (barrier(k, e) || (k->journal && each_journal(k, read_one, &others, e)) || barrier(k, e))
        return -1;
    if (k->kept)
        log_info("%lld sequences are there from a run before this one", (long long)k->kept);
    if (others)
        log_info("%lld journal%s of %s %s of another model, text or option and not read: delete "
                 "%s if not wanted",
                 (long long)others, others > 1 ? "s" : "", out, others > 1 ? "are" : "is",
                 others > 1 ? "them" : "it");
    return 0;
}

const struct loss_row *loss_keep_find(const struct loss_keep *k, size_t row, struct str unit)
{
    bool there = k && row < k->n && k->v[row].known && str_eq(k->v[row].unit, unit);
    return there ? &k->v[row] : NULL;
}

int loss_keep_add(struct loss_keep *k, const struct loss_row *r, struct err *e)
{
    if (!k || !k->journal)
        return 0;
    double now = clock_now();
    if (records_append(k->journal, r, e))
        return -1;
    k->added++;
    if (now - k->synced < SYNC_EVERY)
        return 0;
    k->synced = now;
    return records_sync(k->journal, e);
}

static void remove_one(struct loss_keep *k, const char *path)
{
    (void)k;
    unlink(path);
}

int loss_keep_close(struct loss_keep *k, int rc, struct err *e)
{
    int64_t others;
    struct err later = {0};
    if (rc == 0 && k->path)
        rc = barrier(k, e); /* other ranks wait until rank 0 has written the result */
    if (!k->journal)
        goto out;
    if (records_close(k->journal, rc ? &later : e))
        rc = -1;
    if (rc == 0 && (!k->meet || !k->meet->rank))
        each_journal(k, remove_one, &others, &later);
    if (rc == 0 || (!k->kept && !k->added))
        unlink(k->path);
out:
    free(k->v);
    arena_release(&k->arena);
    *k = (struct loss_keep){0};
    return rc;
}

/* judge_store: see pipelines/judge_store.h. */
#include "pipelines/judge_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Layouts on the scratch disk, which only this process reads. */
struct item_cell {
    uint64_t at; /* of its texts, one after the other */
    uint32_t n[5];
    int32_t cluster;
    int32_t made; /* its id is made of its text */
};
struct ask_cell {
    int32_t item, n, asked, repeat, state, outcome;
    uint64_t detail, served;
    char key[65];
};
struct range {
    uint64_t first, n;
};

void judge_store_release(struct judge_store *s)
{
    spool_release(&s->text);
    spool_release(&s->item);
    spool_release(&s->answer);
    spool_release(&s->ask);
    spool_release(&s->first);
    spool_index_release(&s->ids);
    spool_index_release(&s->names);
    buf_release(&s->scratch);
    *s = (struct judge_store){0};
}

int judge_store_check(const struct judge_store *s, struct err *e)
{
    const struct spool *all[] = {&s->text,  &s->item,      &s->answer,     &s->ask,
                                 &s->first, &s->ids.slots, &s->names.slots};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (spool_check(all[i], e))
            return -1;
    return 0;
}

/* ---- texts ---------------------------------------------------------------------------------- */

uint64_t judge_store_text(struct judge_store *s, struct str text)
{
    uint64_t n = text.n;
    if (!n)
        return 0;
    if (!s->text.end)
        spool_append(&s->text, "", 1); /* so that 0 means none */
    uint64_t at = spool_append(&s->text, &n, sizeof n);
    spool_append(&s->text, text.p, text.n);
    return at;
}

size_t judge_store_length(struct judge_store *s, uint64_t at)
{
    uint64_t n = 0;
    if (at)
        spool_read(&s->text, at, &n, sizeof n);
    return (size_t)n;
}

void judge_store_get(struct judge_store *s, uint64_t at, struct buf *out)
{
    size_t n = judge_store_length(s, at);
    if (n)
        spool_read(&s->text, at + sizeof(uint64_t), buf_room(out, n), n);
    out->n += n;
    if (out->p)
        out->p[out->n] = '\0';
}

uint64_t judge_store_name(struct judge_store *s, struct str text)
{
    buf_cut(&s->scratch, 0);
    judge_store_get(s, s->last, &s->scratch);
    if (!s->last || !str_eq(buf_str(&s->scratch), text))
        s->last = judge_store_text(s, text);
    return s->last;
}

/* ---- items ---------------------------------------------------------------------------------- */

static void item_cell(struct judge_store *s, size_t item, struct item_cell *c)
{
    spool_read(&s->item, item * sizeof *c, c, sizeof *c);
}

void judge_store_view(struct judge_store *s, size_t item, const uint64_t *at, size_t n,
                      struct judge_view *v)
{
    struct item_cell c;
    struct str *to[] = {&v->it.id, &v->it.instruction, &v->it.input, &v->it.reference,
                        &v->it.cluster};
    size_t own = 0, all;
    item_cell(s, item, &c);
    for (int i = 0; i < 5; i++)
        own += c.n[i];
    all = own;
    for (size_t i = 0; i < n; i++)
        all += at[i] == JUDGE_REFERENCE ? 0 : judge_store_length(s, at[i]);
    buf_cut(&v->text, 0);
    char *p = buf_room(&v->text, all + 1); /* all at once: nothing moves below */
    spool_read(&s->text, c.at, p, own);
    v->it = (struct item){.task = STR_LIT("instruct"), .gold = FIELD_NONE_I64};
    v->cluster = c.cluster;
    for (int i = 0; i < 5; i++) {
        *to[i] = (struct str){p, c.n[i]};
        p += c.n[i];
    }
    v->text.n = own;
    for (size_t i = 0; i < n; i++) {
        size_t from = v->text.n;
        if (at[i] != JUDGE_REFERENCE)
            judge_store_get(s, at[i], &v->text);
        v->answer[i] = at[i] == JUDGE_REFERENCE ? v->it.reference
                                                : (struct str){v->text.p + from, v->text.n - from};
    }
}

static bool same_part(struct judge_store *s, size_t item, int part, struct str text)
{
    struct item_cell c;
    uint64_t at;
    item_cell(s, item, &c);
    if (c.n[part] != text.n)
        return false;
    at = c.at;
    for (int i = 0; i < part; i++)
        at += c.n[i];
    buf_cut(&s->scratch, 0);
    spool_read(&s->text, at, buf_room(&s->scratch, text.n + 1), text.n);
    return memcmp(s->scratch.p, text.p, text.n) == 0;
}

size_t judge_store_find(struct judge_store *s, struct str id)
{
    uint64_t probe = 0, item;
    while (spool_index_next(&s->ids, hash64(id.p, id.n, 0), &probe, &item))
        if (same_part(s, item, 0, id))
            return item;
    return (size_t)-1;
}

/* Items of one cluster get one number; one without is its own, under its id. */
static int32_t cluster_of(struct judge_store *s, const struct item *it, struct str id)
{
    struct str name = it->cluster.n ? it->cluster : id;
    uint64_t hash = hash64(name.p, name.n, 1), probe = 0, other;
    while (spool_index_next(&s->names, hash, &probe, &other)) {
        struct item_cell c;
        item_cell(s, other, &c);
        if (same_part(s, other, c.n[4] ? 4 : 0, name))
            return c.cluster;
    }
    spool_index_add(&s->names, hash, s->items);
    return (int32_t)s->clusters++;
}

struct adding {
    struct judge_store *s;
    const char *path;
};

/* The id of an item without one: of its text, and -2, -3... for repeats. */
static struct str make_id(struct judge_store *s, const struct item *it, struct buf *out)
{
    char base[17];
    item_base_id(it, base);
    buf_addz(out, base);
    for (int k = 2;; k++) {
        size_t other = judge_store_find(s, buf_str(out));
        struct item_cell c = {0};
        if (other != (size_t)-1)
            item_cell(s, other, &c);
        if (!c.made || s->item.failed)
            return buf_str(out);
        buf_cut(out, 0);
        buf_printf(out, "%s-%d", base, k);
    }
}

static int add_item(void *ctx, const struct item *it, struct err *e)
{
    struct adding *x = ctx;
    struct judge_store *s = x->s;
    struct buf made = {0};
    struct str id = it->id.n ? it->id : make_id(s, it, &made);
    size_t other = judge_store_find(s, id);
    int rc = 0;
    if (other != (size_t)-1)
        rc = err_set(e, "%s: items %zu and %zu share the id \"%.*s\"", x->path, other + 1,
                     s->items + 1, STR_ARG(id));
    if (rc == 0) {
        struct str part[] = {id, it->instruction, it->input, it->reference, it->cluster};
        struct item_cell c = {.at = s->text.end, .made = !it->id.n};
        for (int i = 0; i < 5; i++) {
            c.n[i] = (uint32_t)part[i].n;
            spool_append(&s->text, part[i].p, part[i].n);
        }
        c.cluster = cluster_of(s, it, id);
        spool_write(&s->item, s->items * sizeof c, &c, sizeof c);
        spool_index_add(&s->ids, hash64(id.p, id.n, 0), s->items);
        s->items++;
        rc = judge_store_check(s, e);
    }
    buf_release(&made);
    return rc;
}

int judge_store_items(struct judge_store *s, const char *path, struct err *e)
{
    struct adding x = {s, path};
    if (items_each(path, add_item, &x, e))
        return -1;
    spool_index_release(&s->names);
    return s->items ? 0 : err_set(e, "%s: no item in it", path);
}

/* ---- answers -------------------------------------------------------------------------------- */

static uint64_t answer_at(const struct judge_store *s, size_t item, size_t entrant)
{
    return (item * s->entrants + entrant) * sizeof(struct answer_cell);
}

struct answer_cell judge_store_cell(struct judge_store *s, size_t item, size_t entrant)
{
    struct answer_cell c;
    spool_read(&s->answer, answer_at(s, item, entrant), &c, sizeof c);
    return c;
}

/* An answer may be empty and is one all the same: its text has a length in front. */
void judge_store_answer(struct judge_store *s, size_t item, size_t entrant, const struct str *text)
{
    struct answer_cell c = {.asked = 1};
    if (text) {
        uint64_t n = text->n;
        if (!s->text.end)
            spool_append(&s->text, "", 1);
        c.at = spool_append(&s->text, &n, sizeof n);
        spool_append(&s->text, text->p, text->n);
    }
    spool_write(&s->answer, answer_at(s, item, entrant), &c, sizeof c);
}

void judge_store_set_rep(struct judge_store *s, size_t item, size_t entrant, int32_t rep)
{
    struct answer_cell c = judge_store_cell(s, item, entrant);
    c.rep = rep + 1;
    spool_write(&s->answer, answer_at(s, item, entrant), &c, sizeof c);
}

/* ---- questions ------------------------------------------------------------------------------ */

static size_t stride(const struct judge_store *s)
{
    return sizeof(struct ask_cell) + s->most * (sizeof(int32_t) + sizeof(double));
}

void judge_get(struct judge_store *s, size_t no, struct judge_ask *q)
{
    struct ask_cell c;
    uint64_t at = no * stride(s);
    spool_read(&s->ask, at, &c, sizeof c);
    *q = (struct judge_ask){.no = no,
                            .item = c.item,
                            .n = c.n,
                            .asked = c.asked,
                            .repeat = c.repeat,
                            .state = (enum ask_state)c.state,
                            .outcome = c.outcome,
                            .detail = c.detail,
                            .served = c.served};
    memcpy(q->key, c.key, sizeof q->key);
    at += sizeof c;
    spool_read(&s->ask, at, q->value, (size_t)q->n * sizeof *q->value);
    at += s->most * sizeof *q->value;
    spool_read(&s->ask, at, q->who, (size_t)q->n * sizeof *q->who);
}

void judge_put(struct judge_store *s, const struct judge_ask *q)
{
    struct ask_cell c = {q->item,    q->n,      q->asked,  q->repeat, (int32_t)q->state,
                         q->outcome, q->detail, q->served, {0}};
    uint64_t at = q->no * stride(s);
    memcpy(c.key, q->key, sizeof c.key);
    spool_write(&s->ask, at, &c, sizeof c);
    at += sizeof c;
    spool_write(&s->ask, at, q->value, (size_t)q->n * sizeof *q->value);
    at += s->most * sizeof *q->value;
    spool_write(&s->ask, at, q->who, (size_t)q->n * sizeof *q->who);
}

void judge_append(struct judge_store *s, size_t row, struct judge_ask *q)
{
    struct range r;
    uint64_t at = (row * s->items + (size_t)q->item) * sizeof r;
    q->no = s->asks++;
    judge_put(s, q);
    if (row >= s->rows)
        s->rows = row + 1;
    spool_read(&s->first, at, &r, sizeof r);
    if (!r.n)
        r.first = q->no;
    r.n++;
    spool_write(&s->first, at, &r, sizeof r);
}

void judge_forget(struct judge_store *s)
{
    spool_release(&s->ask);
    spool_release(&s->first);
    s->asks = s->rows = 0;
}

void judge_about(struct judge_store *s, size_t row, size_t item, size_t *first, size_t *n)
{
    struct range r;
    spool_read(&s->first, (row * s->items + item) * sizeof r, &r, sizeof r);
    *first = (size_t)r.first;
    *n = (size_t)r.n;
}

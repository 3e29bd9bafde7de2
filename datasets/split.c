/* split: see split.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "datasets/clean.h"
#include "datasets/split.h"

const char *const split_names[] = {"train", "val", "test", NULL};

/* ---- documents ------------------------------------------------------------------------------- */

struct writer {
    const struct split_docs *o;
    struct split_counts *n;
    struct docs *docs; /* that are read now */
    struct file_out train, test;
    struct buf clean, line, id;
};

static int put_doc(struct writer *w, const struct doc *d, bool held_out, struct err *e)
{
    if (held_out && docs_once(w->docs, d->id, e)) /* it will be paired by its id */
        return -1;
    buf_cut(&w->line, 0);
    doc_write(d, &w->line);
    if (held_out) {
        w->n->test_docs++;
        w->n->test_bytes += (int64_t)d->text.n;
    } else {
        w->n->train_docs++;
        w->n->train_bytes += (int64_t)d->text.n;
    }
    return file_puts(held_out ? &w->test : &w->train, buf_str(&w->line), e);
}

static bool goes_to_test(const struct writer *w, struct str id, bool test_input)
{
    return test_input || (!w->o->test_in.n && doc_held_out(id, w->o->holdout));
}

/* One document of the input: cleaned, cut and written. */
static int take_doc(struct writer *w, struct doc d, bool test_input, struct err *e)
{
    struct str rest, piece;
    int64_t k = 0;
    if (w->o->clean) {
        buf_cut(&w->clean, 0);
        w->n->cleaned += clean_text(d.text, &w->clean);
        d.text = buf_str(&w->clean);
    }
    if (w->o->paragraphs <= 0 || d.text.n <= (size_t)w->o->paragraphs)
        return put_doc(w, &d, goes_to_test(w, d.id, test_input), e);
    w->n->cut++;
    for (rest = d.text; clean_piece(&rest, (size_t)w->o->paragraphs, &piece);) {
        buf_cut(&w->id, 0);
        buf_printf(&w->id, "%.*s#%04lld", STR_ARG(d.id), (long long)++k);
        struct doc p = {buf_str(&w->id), piece, NAN};
        if (put_doc(w, &p, goes_to_test(w, p.id, test_input), e))
            return -1;
    }
    return 0;
}

static int take_all(struct writer *w, struct strs paths, bool test_input, struct err *e)
{
    struct progress bar = {0};
    struct doc d;
    int got = -1;
    struct docs *r = docs_open(paths, (enum bad_utf8)w->o->bad_utf8, e);
    if (!r)
        return -1;
    w->docs = r;
    progress_begin(&bar, test_input ? "split test" : "split", "%", 100, 0);
    while ((got = docs_next(r, &d, e)) > 0) {
        if (take_doc(w, d, test_input, e)) {
            got = -1;
            break;
        }
        progress_set(&bar, 100 * docs_fraction(r), NULL);
    }
    progress_end(&bar);
    w->n->replaced += docs_replaced(r);
    docs_close(r);
    return got;
}

static int check_sides(const struct split_docs *o, const struct split_counts *n, struct err *e)
{
    if (!n->train_docs)
        return err_set(e, "split: all %lld documents were held out; lower --holdout (%g)",
                       (long long)n->test_docs, o->holdout);
    if (!n->test_docs && (o->test_in.n || o->holdout > 0))
        return err_set(e,
                       "split: none of %lld documents was held out; raise --holdout (%g), give "
                       "--test-in, or cut texts with --paragraphs",
                       (long long)n->train_docs, o->holdout);
    return 0;
}

int split_docs(const struct split_docs *o, const char *train, const char *test,
               struct split_counts *n, struct err *e)
{
    struct writer w = {.o = o, .n = n};
    bool with_test = o->test_in.n || o->holdout > 0;
    int rc = -1;
    *n = (struct split_counts){0};
    if (file_create(&w.train, train, e) || (with_test && file_create(&w.test, test, e)))
        goto out;
    if (take_all(&w, o->in, false, e) || (o->test_in.n && take_all(&w, o->test_in, true, e)))
        goto out;
    if (check_sides(o, n, e))
        goto out;
    if (with_test && file_commit(&w.test, e))
        goto out;
    rc = file_commit(&w.train, e);
out:
    file_abort(&w.train);
    file_abort(&w.test);
    buf_release(&w.clean);
    buf_release(&w.line);
    buf_release(&w.id);
    return rc;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static int named_part(const struct item *it, struct err *e)
{
    for (int k = 0; k < SPLIT_PARTS; k++)
        if (str_eqz(it->split, split_names[k]))
            return k;
    return err_set(e, "item \"%.*s\": split \"%.*s\" is none of train, val, test", STR_ARG(it->id),
                   STR_ARG(it->split));
}

/* Rounds down, but not on 0.85 * 1100 = 934.9999... */
static size_t share_of(double share, size_t n)
{
    return (size_t)floor(share * (double)n + 1e-6);
}

int split_items(const struct items *all, double test, double val, struct items part[SPLIT_PARTS],
                struct err *e)
{
    size_t open = 0, at = 0;
    for (int k = 0; k < SPLIT_PARTS; k++) {
        part[k] = (struct items){0};
        part[k].v = mem_array(all->n ? all->n : 1, sizeof *part[k].v);
    }
    for (size_t i = 0; i < all->n; i++)
        open += !all->v[i].split.n;
    size_t n_train = share_of(1 - test - val, open), n_test = share_of(test, open);
    for (size_t i = 0; i < all->n; i++) {
        int k = SPLIT_VAL;
        if (all->v[i].split.n) {
            if ((k = named_part(&all->v[i], e)) < 0)
                return -1;
        } else {
            k = at < n_train ? SPLIT_TRAIN : at < n_train + n_test ? SPLIT_TEST : SPLIT_VAL;
            at++;
        }
        struct item *to = &part[k].v[part[k].n++];
        *to = all->v[i];
        to->split = str_z(split_names[k]);
    }
    for (int k = 0; k < SPLIT_PARTS; k++)
        if (!part[k].n)
            return err_set(e, "no instruction of %zu falls into the %s split", all->n,
                           split_names[k]);
    return 0;
}

void split_items_release(struct items part[SPLIT_PARTS])
{
    for (int k = 0; k < SPLIT_PARTS; k++) {
        free(part[k].v);
        part[k] = (struct items){0};
    }
}

static struct str prompt_of(const struct item *it, struct arena *a)
{
    struct buf b = {0};
    buf_adds(&b, it->instruction);
    buf_addc(&b, '\0');
    buf_adds(&b, it->input);
    struct str s = str_copy(a, buf_str(&b));
    buf_release(&b);
    return s;
}

struct json *split_duplicates(const struct items part[SPLIT_PARTS])
{
    struct arena a = {0};
    struct map seen = {0}; /* prompt -> first part it lies in; train is added first */
    struct json *v = json_obj(), *in_train[SPLIT_PARTS] = {NULL, json_arr(), json_arr()};
    int64_t items = 0;
    for (int k = 0; k < SPLIT_PARTS; k++)
        for (size_t i = 0; i < part[k].n; i++) {
            int added;
            size_t at = map_add(&seen, prompt_of(&part[k].v[i], &a), k, &added);
            if (!added && k != SPLIT_TRAIN && seen.value[at] == SPLIT_TRAIN)
                json_push(in_train[k], json_of_str(part[k].v[i].id));
            items++;
        }
    json_put(v, "items", json_of_int(items));
    json_put(v, "distinct_prompts", json_of_int((int64_t)seen.n));
    json_put(v, "test_in_train", in_train[SPLIT_TEST]);
    json_put(v, "val_in_train", in_train[SPLIT_VAL]);
    map_release(&seen);
    arena_release(&a);
    return v;
}

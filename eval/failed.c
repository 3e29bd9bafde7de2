/* failed: see eval/failed.h. */
#include "eval/failed.h"

enum { NAMED = 20, LISTED = 1000 };

void failed_add(struct failed *f, struct str id, struct str why, bool final)
{
    f->open += !final;
    if (f->n < NAMED)
        buf_printf(&f->words, "%s%.*s", f->n ? ", " : "", (int)(id.n < 40 ? id.n : 40), id.p);
    if (f->n == 0 && why.n)
        buf_printf(&f->words, " (%.*s)", STR_ARG(why));
    if (!f->ids)
        f->ids = json_arr();
    if (f->n++ < LISTED)
        json_push(f->ids, json_of_str(id));
}

const char *failed_words(struct failed *f)
{
    if (f->n > NAMED)
        buf_printf(&f->words, " and %lld more", (long long)(f->n - NAMED));
    return f->words.n ? f->words.p : "";
}

void failed_fact(struct failed *f, const char *name, struct stage *st)
{
    if (f->ids)
        stage_fact(st, name, f->ids);
    f->ids = NULL;
}

void failed_release(struct failed *f)
{
    json_free(f->ids);
    buf_release(&f->words);
    *f = (struct failed){0};
}

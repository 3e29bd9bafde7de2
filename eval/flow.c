/* flow: see eval/flow.h. */
#include "eval/flow.h"

#include "eval/text.h"

static struct str answer_of(const struct flow *f)
{
    return (struct str){f->text.p + f->base, f->text.n - f->base};
}

bool flow_add(struct flow *f, struct str bytes)
{
    size_t before = f->text.n - f->base;
    if (!bytes.n)
        return false;
    buf_adds(&f->text, bytes);
    ptrdiff_t at = text_stop(answer_of(f), before, f->stop);
    if (at >= 0)
        buf_cut(&f->text, f->base + (size_t)at);
    return at >= 0;
}

void flow_take(struct flow *f, bool all, struct buf *out)
{
    size_t upto = f->text.n;
    if (!all && upto > f->base)
        upto -= text_held(answer_of(f), f->stop);
    if (upto <= f->shown)
        return;
    struct str part = {f->text.p + f->shown, upto - f->shown};
    if (!all)
        part.n = text_whole(part);
    text_repair(part, out);
    f->shown += part.n;
}

void flow_release(struct flow *f)
{
    buf_release(&f->text);
    *f = (struct flow){0};
}

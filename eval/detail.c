/* detail: see eval/detail.h. */
#include "eval/detail.h"

#define LOST " lost its first "
#define FULL "the answer ends where the context does, "

static void part(struct buf *b)
{
    if (b->n)
        buf_addz(b, "; ");
}

void detail_put_lost(struct buf *b, const char *what, int64_t lost, int64_t of)
{
    part(b);
    buf_printf(b, "%s" LOST "%lld", what, (long long)lost);
    if (of)
        buf_printf(b, " of %lld", (long long)of);
    buf_addz(b, " tokens");
}

bool detail_lost(struct str detail)
{
    return str_find(detail, STR_LIT(LOST)) >= 0;
}

void detail_put_full(struct buf *b, int64_t context)
{
    part(b);
    buf_printf(b, FULL "at %lld tokens", (long long)context);
}

bool detail_full(struct str detail)
{
    return str_find(detail, STR_LIT(FULL)) >= 0;
}

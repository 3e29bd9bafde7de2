/* model_replay: canned answers, "replay:FILE" with FILE a record file of responses. Answers are
 * found by item id; one that is not there is FINISH_ERROR, never an empty answer.
 */
#include <stdlib.h>

#include "base/hash.h"
#include "eval/model_kinds.h"
#include "formats/manifest.h"

struct replay {
    struct responses responses;
    const char *path, *identity;
};

static int replay_open(struct model *m, const char *spec, const struct model_options *o,
                       struct err *e)
{
    (void)o;
    struct replay *r = mem_zero(sizeof *r);
    char hex[SHA256_HEX];
    m->impl = r;
    r->path = arena_strdup(&m->arena, spec + sizeof "replay:" - 1);
    if (responses_load(&r->responses, r->path, e) || sha256_file(r->path, hex, e))
        return -1;
    r->identity = arena_printf(&m->arena, "replay %s", hex);
    return 0;
}

static void replay_close(struct model *m)
{
    struct replay *r = m->impl;
    if (!r)
        return;
    responses_release(&r->responses);
    free(r);
    m->impl = NULL;
}

static int replay_answer(struct model *m, request_next_fn *next, response_done_fn *done, void *ctx,
                         struct err *e)
{
    const struct replay *r = m->impl;
    for (;;) {
        struct request q = {0};
        int rc = next(ctx, &q, e);
        if (rc <= 0)
            return rc;
        struct response missing = {.item = q.id,
                                   .finish = FINISH_ERROR,
                                   .detail = STR_LIT("not in the replayed file"),
                                   .tokens_in = FIELD_NONE_I64,
                                   .tokens_out = FIELD_NONE_I64};
        const struct response *hit = responses_find(&r->responses, q.id);
        if (done(ctx, &q, hit ? hit : &missing, e))
            return -1;
    }
}

static const char *replay_identity(const struct model *m)
{
    const struct replay *r = m->impl;
    return r->identity;
}

const struct model_ops model_replay = {
    .name = "replay",
    .help = "replay:FILE, responses recorded before",
    .open = replay_open,
    .close = replay_close,
    .answer = replay_answer,
    .identity = replay_identity,
};

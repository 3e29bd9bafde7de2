/* model_replay: canned answers, "replay:FILE" with FILE a record file of responses. Answers are
 * found by item id; one that is not there is FINISH_ERROR, never an empty answer. How they were made
 * (template, decoding, encoding, precision) is what the file's manifest says, whatever is asked now.
 */
#include <stdlib.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "eval/model_kinds.h"
#include "formats/manifest.h"

struct replay {
    struct responses responses;
    const char *path, *identity;
    struct json *manifest;
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
    m->canned = true;
    if (!file_exists(manifest_path(&m->arena, r->path)))
        return 0;
    r->manifest = manifest_read(r->path, e);
    m->told = json_get(json_get(r->manifest, "facts"), "identity");
    return r->manifest ? 0 : -1;
}

void model_told(const struct model *m, const char *key, struct json *id)
{
    const struct json *v = json_get(m->told, key);
    if (v)
        json_put(id, key, json_clone(v));
    else if (!m->told)
        json_put(id, key, json_of_z("unknown"));
}

const char *model_told_items(const struct model *m, const char *hash)
{
    struct str told = json_str(json_get(m->told, "items"));
    if (!m->canned || !told.n || str_eqz(told, hash))
        return hash;
    log_warn(
        "the recorded answers were to other items than these, or not to all and only these: they "
        "are matched by id, and the result says \"unknown\" for its items");
    return "unknown";
}

static void replay_close(struct model *m)
{
    struct replay *r = m->impl;
    if (!r)
        return;
    responses_release(&r->responses);
    json_free(r->manifest);
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

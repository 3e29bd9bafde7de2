/* serve: see eval/serve.h. A server is opened and closed here; the transport's side of an exchange. The
 * decoding: eval/serve_decode.c. */
#include "eval/serve.h"

#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "eval/serve_private.h"
#include "formats/manifest.h"

/* ---- the transport's side ------------------------------------------------------------------- */

void server_start(struct exchange *x, const struct exchange_hooks *hooks)
{
    struct server *s = x->s;
    pthread_mutex_lock(&s->lock);
    x->hooks = *hooks;
    x->refs += (int)x->seqs;
    for (int64_t i = 0; i < x->seqs; i++) {
        struct seq *q = &x->seq[i];
        if (s->last)
            s->last->next = q;
        else
            s->first = q;
        s->last = q;
    }
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

bool exchange_ended(struct exchange *x)
{
    pthread_mutex_lock(&x->s->lock);
    bool ended = x->ended;
    pthread_mutex_unlock(&x->s->lock);
    return ended;
}

bool exchange_stream(const struct exchange *x)
{
    return x->stream && x->status == 200;
}

int exchange_status(const struct exchange *x)
{
    return x->status;
}

const char *exchange_allow(const struct exchange *x)
{
    return x->allow;
}

struct str exchange_body(struct exchange *x)
{
    return buf_str(&x->out);
}

ssize_t exchange_read(struct exchange *x, char *to, size_t max)
{
    ssize_t got = -1;
    pthread_mutex_lock(&x->s->lock);
    size_t n = x->out.n - x->read;
    n = n < max ? n : max;
    if (n) {
        memcpy(to, x->out.p + x->read, n);
        x->read += n;
        got = (ssize_t)n;
        if (x->read == x->out.n) {
            buf_cut(&x->out, 0);
            x->read = 0;
        }
    } else if (!x->ended) {
        x->hooks.rest(x->hooks.ctx);
        got = 0;
    }
    pthread_mutex_unlock(&x->s->lock);
    return got;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

void exchange_drop(struct exchange *x)
{
    struct server *s = x->s;
    pthread_mutex_lock(&s->lock);
    x->dropped = true;
    x->hooks = (struct exchange_hooks){.wake = nothing, .rest = nothing};
    exchange_unref(x);
    pthread_mutex_unlock(&s->lock);
}

/* ---- opening and running -------------------------------------------------------------------- */

static int name_it(struct server *s, struct err *e)
{
    const struct serve_options *o = s->o;
    char hash[SHA256_HEX];
    struct str model = o->model;
    while (model.n > 1 && model.p[model.n - 1] == '/')
        model.n--;
    s->names.model = o->name.n ? str_dup(&s->arena, o->name) : path_base(str_dup(&s->arena, model));
    if (manifest_whole(s->l.dir, e) || manifest_hash(s->l.dir, hash, e))
        return -1;
    s->names.fingerprint = arena_printf(&s->arena, "assay-%.12s-%.12s", hash, s->vocab.hash);
    s->names.created = (int64_t)s->clock->wall(s->clock);
    s->names.vocab = &s->vocab;
    s->names.context = s->l.config.context;
    return 0;
}

static int server_load(struct server *s, struct err *e)
{
    const struct serve_options *o = s->o;
    struct arena *a = &s->arena;
    struct local_options lo = {.backend = o->backend.n ? str_dup(a, o->backend) : NULL,
                               .threads = o->threads,
                               .precision = o->precision,
                               .batch = generate_batch(o->rows),
                               .decode = true};
    if (local_open(&s->l, str_dup(a, o->model), &lo, e) ||
        local_vocab(&s->l, o->vocab.n ? str_dup(a, o->vocab) : NULL, &s->vocab, e))
        return -1;
    struct encode_options eo = {.special = SPECIAL_PLAIN, .bad_utf8 = BAD_UTF8_REPLACE};
    s->encoder = encoder_new(&s->vocab, eo, e);
    s->eot = local_eot(&s->l, &s->vocab);
    if (!s->encoder || name_it(s, e) ||
        template_load(&s->template_, str_dup(a, o->template_), a, e))
        return -1;
    struct rng r = rng_make((uint64_t)(s->clock->wall(s->clock) * 1e6), "serve", 0);
    s->seed = o->seed > 0 ? (uint64_t)o->seed : rng_u64(&r);
    return 0;
}

static void server_release(struct server *s)
{
    encoder_free(s->encoder);
    vocab_release(&s->vocab);
    local_close(&s->l);
    arena_release(&s->arena);
    pthread_cond_destroy(&s->more);
    pthread_mutex_destroy(&s->lock);
}

/* The last bytes go out while nothing is decoded any more. */
static void flush(struct server *s)
{
    double end = s->clock->now(s->clock) + 5;
    while (s->transport->pending(s->t) > 0 && s->clock->now(s->clock) < end)
        s->clock->sleep(s->clock, 0.01);
}

static int listen_and_decode(struct server *s, FILE *to, struct err *e)
{
    const struct serve_options *o = s->o;
    bool six = str_find(o->host, STR_LIT(":")) >= 0;
    int port = 0;
    if (s->transport->open(&s->t, s, o, &port, e))
        return -1;
    fprintf(to, "serving %s at http://%s%.*s%s:%d/v1\n", s->names.model, six ? "[" : "",
            STR_ARG(o->host), six ? "]" : "", port);
    fflush(to);
    int rc = serve_decode(s, e);
    if (rc == 0)
        flush(s);
    s->transport->close(s->t);
    log_info("%lld requests answered, %lld tokens made", (long long)s->requests,
             (long long)s->made);
    return rc;
}

int serve_run(const struct serve_options *o, FILE *to, struct err *e)
{
    struct server s = {.o = o, .clock = clock_system(), .transport = serve_transport(e)};
    pthread_condattr_t monotonic;
    if (!s.transport)
        return -1;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.more, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = server_load(&s, e);
    if (rc == 0)
        rc = listen_and_decode(&s, to, e);
    server_release(&s);
    return rc;
}

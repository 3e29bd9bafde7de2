/* ranks: agreement between the ranks of a training run, see ranks.h. */
#include "trainer/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"

#define MOST_TEXT ((int64_t)1 << 20)

int ranks_join(struct ranks *r, const struct rendezvous_seat *seat, const char *command,
               struct err *e)
{
    struct rendezvous_options o = {.seat = seat};
    *r = (struct ranks){0};
    if (rendezvous_open(&r->meet, &o, e)) {
        r->agreed = true; /* who could be told was told */
        return -1;
    }
    r->many = r->meet.world > 1;
    if (!r->many)
        return 0;
    if (r->meet.rank)
        log_open(command, LOG_QUIET);
    log_info("%d ranks, %d of them on %s (%s)", r->meet.world, r->meet.local_world, r->meet.host,
             r->meet.way);
    return 0;
}

bool ranks_first(const struct ranks *r)
{
    return r->meet.rank == 0;
}

void ranks_part(const struct ranks *r, int64_t n, int64_t *lo, int64_t *hi)
{
    int64_t rank = r->many ? r->meet.rank : 0, world = r->many ? r->meet.world : 1;
    *lo = n * rank / world;
    *hi = n * (rank + 1) / world;
}

int ranks_tell(struct ranks *r, void *bytes, size_t n, struct err *e)
{
    return r->many ? rendezvous_share(&r->meet, 0, bytes, n, e) : 0;
}

int ranks_sum(struct ranks *r, double *v, int n, struct err *e)
{
    if (!r->many)
        return 0;
    double *all = mem_array((size_t)r->meet.world * (size_t)n, sizeof *all);
    int rc = rendezvous_gather(&r->meet, v, (size_t)n * sizeof *v, all, e);
    for (int k = 0; k < n && !rc; k++) {
        v[k] = 0;
        for (int i = 0; i < r->meet.world; i++)
            v[k] += all[i * n + k];
    }
    free(all);
    return rc;
}

/* ---- are we of one run? ---- */

/* The first line of `mine` that is not `theirs`; false: none. */
static bool differs(struct str mine, struct str theirs, char *out, size_t n)
{
    while (mine.n || theirs.n) {
        struct str a = str_cut(&mine, '\n'), b = str_cut(&theirs, '\n'), value = b;
        str_cut(&value, '=');
        if (str_eq(a, b))
            continue;
        snprintf(out, n, "%.*s here, but%.*s on rank 0", STR_ARG(a), STR_ARG(value));
        return true;
    }
    return false;
}

int ranks_same(struct ranks *r, struct str text, struct err *e)
{
    struct said {
        char why[400];
        char host[64];
    } me = {0}, *all;
    int64_t n = (int64_t)text.n;
    if (!r->many)
        return 0;
    if (n > MOST_TEXT || ranks_tell(r, &n, sizeof n, e))
        return -1;
    char *zero = mem_alloc((size_t)n + 1);
    memcpy(zero, text.p, text.n < (size_t)n ? text.n : (size_t)n);
    all = mem_array((size_t)r->meet.world, sizeof *all);
    int rc = ranks_tell(r, zero, (size_t)n, e);
    if (!rc) {
        differs(text, (struct str){zero, (size_t)n}, me.why, sizeof me.why);
        snprintf(me.host, sizeof me.host, "%s", r->meet.host);
        rc = rendezvous_gather(&r->meet, &me, sizeof me, all, e);
    }
    for (int i = 0; i < r->meet.world && !rc; i++)
        if (all[i].why[0]) {
            r->agreed = true;
            rc = err_set(e, "rank %d on %s has other options, data or program: %s", i, all[i].host,
                         all[i].why);
        }
    free(all);
    free(zero);
    return rc;
}

/* ---- the comm ---- */

int ranks_device(const struct rendezvous *meet)
{
    const char *shown = getenv("CUDA_VISIBLE_DEVICES");
    return shown && *shown && !strchr(shown, ',') ? 0 : meet->local;
}

int ranks_own_device(struct rendezvous *meet, const struct backend *b, struct err *e)
{
    struct place {
        char host[64], unit[64];
        int64_t number;
    } me = {0}, *all;
    if (!b->ops->unit)
        return 0;
    snprintf(me.host, sizeof me.host, "%s", meet->host);
    snprintf(me.unit, sizeof me.unit, "%s", b->ops->unit(b));
    me.number = ranks_device(meet);
    all = mem_array((size_t)meet->world, sizeof *all);
    int rc = rendezvous_gather(meet, &me, sizeof me, all, e);
    for (int j = 1; j < meet->world && !rc; j++)
        for (int i = 0; i < j && !rc; i++)
            if (strcmp(all[i].host, all[j].host) == 0 && strcmp(all[i].unit, all[j].unit) == 0) {
                rc = 1;
                err_code(e, EXIT_USAGE,
                         "ranks %d and %d on %s both take GPU %lld (%s): give each rank of a "
                         "machine a LOCAL_RANK of its own, or show it a GPU of its own",
                         i, j, all[j].host, (long long)all[j].number, all[j].unit);
            }
    free(all);
    return rc;
}

int ranks_open(struct ranks *r, const char *comm, struct backend *b, struct gpt2 *m, struct err *e)
{
    struct buf text = {0};
    if (!r->many)
        return 0;
    /* A rank whose device did not open may have taken the CPU. */
    buf_printf(&text, "backend = %s\n", b->ops->name);
    int rc = ranks_same(r, buf_str(&text), e);
    buf_release(&text);
    if (rc)
        return -1;
    rc = ranks_own_device(&r->meet, b, e);
    r->agreed = r->agreed || rc > 0;
    if (rc || comm_open(&r->comm, comm, b, &r->meet, e))
        return -1;
    r->reduce = reducer_new(m, &r->comm);
    return 0;
}

void ranks_release(struct ranks *r)
{
    reducer_free(r->reduce);
    if (r->comm.ops)
        comm_close(&r->comm);
    rendezvous_close(&r->meet);
    *r = (struct ranks){0};
}

/* ---- steps ---- */

int ranks_agree(struct ranks *r, struct ranks_step *s, struct err *e)
{
    if (!r->many)
        return 0;
    double before = clock_now();
    struct ranks_step *all = mem_array((size_t)r->meet.world, sizeof *all), sum = {0};
    int rc = rendezvous_gather(&r->meet, s, sizeof *s, all, e);
    for (int i = 0; i < r->meet.world && !rc; i++) {
        sum.loss += all[i].loss;
        sum.stalled = all[i].stalled > sum.stalled ? all[i].stalled : sum.stalled;
        sum.stop |= all[i].stop;
    }
    free(all);
    *s = sum;
    r->comm.waited += clock_now() - before;
    return rc;
}

int ranks_equal(struct ranks *r, struct gpt2 *m, int64_t step, struct err *e)
{
    struct told {
        char hash[SHA256_HEX], host[64];
    } mine = {.hash = ""}, *all;
    size_t n = (size_t)gpt2_params(m)->count;
    if (!r->many)
        return 0;
    float *flat = mem_array(n, sizeof *flat);
    int rc = gpt2_get(m, 'w', flat, e);
    if (!rc)
        sha256_hex((struct str){(const char *)flat, n * sizeof *flat}, mine.hash);
    free(flat);
    if (rc)
        return -1;
    snprintf(mine.host, sizeof mine.host, "%s", r->meet.host);
    all = mem_array((size_t)r->meet.world, sizeof *all);
    rc = rendezvous_gather(&r->meet, &mine, sizeof mine, all, e);
    for (int i = 1; i < r->meet.world && !rc; i++) {
        if (strcmp(all[i].hash, all[0].hash) == 0)
            continue;
        r->agreed = true;
        rc =
            err_set(e,
                    "step %lld: the weights of rank %d on %s (%.12s) are not those of rank 0 on %s "
                    "(%.12s): a machine or the network between them computes wrongly",
                    (long long)step, i, all[i].host, all[i].hash, all[0].host, all[0].hash);
    }
    if (!rc)
        log_debug("step %lld: equal weights on %d ranks: %.12s", (long long)step, r->meet.world,
                  all[0].hash);
    free(all);
    return rc;
}

int ranks_end(struct ranks *r, int rc, struct err *e)
{
    struct err ignored;
    if (!r->many)
        return rc;
    if (rc >= 0 || r->agreed) {
        /* Rank 0 writes last; nobody leaves before, so that its failure is everybody's. */
        if (rendezvous_barrier(&r->meet, rc >= 0 ? e : &ignored) && rc >= 0)
            rc = -1;
    } else {
        /* Of several that fail at once the first is said, with rank and host, by all. */
        if (!rendezvous_failed(&r->meet))
            rendezvous_abort(&r->meet, e);
        rendezvous_why(&r->meet, e);
    }
    if (rc >= 0 || rendezvous_speaks(&r->meet))
        return rc;
    return e->code ? e->code : EXIT_FAILED;
}

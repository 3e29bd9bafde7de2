/* bench_comm: collectives of CPU ranks beside the machine's own copies, and how much of them a step hides.
 *
 *   bench_comm [RANKS]                          shm between ranks that it starts
 *   mpirun -n RANKS bench_comm --mpi            MPI's messages
 *
 * A round takes every collective at every size once, and memcpy() of as many bytes by all ranks at the
 * same time; figures are medians over the rounds, ratios are taken round by round, since other work
 * shares the cores. Bytes are those of the whole vector: its sum on all ranks (all_reduce), a rank's part
 * of the sum (reduce_scatter), all parts on all ranks (all_gather).
 *
 * Then a step of a GPT-2 of 6 x 256: buckets that go while backward runs beside the same buckets behind
 * it. What the computing thread waited for them then is what there is to hide.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/launch.h"
#include "trainer/ops.h"
#include "trainer/ranks.h"

enum { ROUNDS = 21, SIZES = 4, WHATS = 4, STEPS = 31 };
static const int64_t sizes[SIZES] = {1 << 14, 1 << 18, 1 << 22, 1 << 24}; /* floats */
static const char *const whats[WHATS] = {"memcpy", "all_reduce", "reduce_scatter", "all_gather"};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return v[n / 2];
}

/* Seconds of one call, from when all ranks are here until all are done. */
static double one(struct ranks *r, int what, float *from, float *to, int64_t n, struct err *e)
{
    struct comm *c = &r->comm;
    int64_t part = n / c->world;
    struct tensor whole = tensor_1d(DTYPE_F32, to, n);
    struct tensor mine = tensor_1d(DTYPE_F32, to + part * c->rank, part);
    if (rendezvous_barrier(&r->meet, e))
        return NAN;
    double before = clock_now();
    ticket t = 0;
    if (what == 0)
        memcpy(to, from, (size_t)n * sizeof *to);
    else if (what == 1)
        t = comm_all_reduce(c, &whole, 0);
    else if (what == 2)
        t = comm_reduce_scatter(c, &mine, &whole, 0);
    else
        t = comm_all_gather(c, &whole, &mine, 0);
    comm_wait(c, t);
    double took = clock_now() - before, *all = mem_array((size_t)c->world, sizeof *all), most = 0;
    int rc = rendezvous_gather(&r->meet, &took, sizeof took, all, e);
    for (int i = 0; i < c->world && !rc; i++)
        most = fmax(most, all[i]);
    free(all);
    return rc || comm_sync(c, e) ? NAN : most;
}

static int bandwidths(struct ranks *r, struct err *e)
{
    static double s[SIZES][WHATS][ROUNDS];
    size_t room = (size_t)sizes[SIZES - 1];
    float *from = mem_array(room, sizeof *from), *to = mem_array(room, sizeof *to);
    int rc = 0;
    for (size_t i = 0; i < room; i++) /* pages that are there */
        from[i] = to[i] = 1;
    for (int k = -1; k < ROUNDS && !rc; k++) /* the first one warms up */
        for (int z = 0; z < SIZES && !rc; z++)
            for (int w = 0; w < WHATS && !rc; w++) {
                double took = one(r, w, from, to, sizes[z], e);
                rc = isnan(took) ? -1 : 0;
                if (k >= 0)
                    s[z][w][k] = took;
                if (w == 1) /* sums would grow out of all bounds */
                    memcpy(to, from, (size_t)sizes[z] * sizeof *to);
            }
    free(from);
    free(to);
    for (int z = 0; z < SIZES && !rc && ranks_first(r); z++) {
        double share[WHATS][ROUNDS], mib = (double)sizes[z] * 4 / 0x1p20;
        for (int w = 0; w < WHATS; w++)
            for (int k = 0; k < ROUNDS; k++)
                share[w][k] = s[z][0][k] / s[z][w][k];
        for (int w = 0; w < WHATS; w++) {
            double at = median(s[z][w], ROUNDS);
            printf("%-14s %6.2f MiB %9.1f us %6.2f GB/s %5.2f of memcpy\n", whats[w], mib, at * 1e6,
                   (double)sizes[z] * 4 / at / 1e9, median(share[w], ROUNDS));
        }
    }
    return rc;
}

/* ---- what a step hides ---- */

struct step {
    struct ranks *r;
    struct gpt2 *m;
    int32_t *ids, *targets;
    uint64_t *seq;
    float *loss;
    int64_t B, T;
};

/* Seconds of a step's gradients, and what of it was waiting for other ranks' buckets. */
static int gradients(struct step *s, bool early, double *took, double *waited, struct err *e)
{
    struct gpt2_batch b = {.ids = s->ids,
                           .targets = s->targets,
                           .seq = s->seq,
                           .B = s->B,
                           .T = s->T,
                           .valid_total = s->B * s->T * s->r->meet.world,
                           .seed = 1,
                           .step = 1,
                           .last = early};
    if (rendezvous_barrier(&s->r->meet, e))
        return -1;
    double before = clock_now(), was = s->r->comm.waited;
    gpt2_zero_grad(s->m);
    reducer_begin(s->r->reduce);
    if (gpt2_grad(s->m, &b, s->loss, e) || reducer_finish(s->r->reduce, e))
        return -1;
    *took = clock_now() - before;
    *waited = s->r->comm.waited - was;
    return 0;
}

static int overlap(struct step *s, struct err *e)
{
    double took[2][STEPS], waited[2][STEPS], gain[STEPS];
    for (int k = -2; k < STEPS; k++)
        for (int way = 0; way < 2; way++) {
            double t, w;
            if (gradients(s, way, &t, &w, e))
                return -1;
            if (k >= 0) {
                took[way][k] = t;
                waited[way][k] = w;
            }
        }
    for (int k = 0; k < STEPS; k++)
        gain[k] = took[0][k] / took[1][k];
    double early = median(waited[1], STEPS), late = median(waited[0], STEPS);
    if (ranks_first(s->r))
        printf("gradients of %.1fM parameters in %d buckets, %d while backward runs: %.1f ms, "
               "waiting %.1f ms; behind it %.1f ms, waiting %.1f ms: %.0f%% hidden, %.2fx\n",
               (double)gpt2_params(s->m)->count / 1e6, reducer_buckets(s->r->reduce),
               reducer_early(s->r->reduce), median(took[1], STEPS) * 1e3, early * 1e3,
               median(took[0], STEPS) * 1e3, late * 1e3, 100 * (1 - early / late),
               median(gain, STEPS));
    return 0;
}

static int run(struct ranks *r, const char *comm, struct err *e)
{
    struct model_config c = {.layers = 6,
                             .heads = 4,
                             .width = 256,
                             .context = 128,
                             .vocab = 2048,
                             .tied = true,
                             .norm_eps = 1e-5,
                             .init_std = 0.02};
    struct backend b;
    struct step s = {.r = r, .B = 4, .T = c.context};
    struct gpt2_use use = {.batch = s.B, .length = s.T, .train = true, .ranks = r->meet.world};
    use.rank = r->meet.rank;
    use.grain = 1;
    if (backend_open(&b, "cpu", 0, 1, e))
        return -1;
    size_t cells = (size_t)(s.B * s.T);
    s.ids = mem_array(cells, sizeof *s.ids);
    s.targets = mem_array(cells, sizeof *s.targets);
    s.seq = mem_array((size_t)s.B, sizeof *s.seq);
    s.loss = mem_array(cells, sizeof *s.loss);
    for (size_t i = 0; i < cells; i++)
        s.ids[i] = s.targets[i] = (int32_t)(i * 7919 % 2048);
    s.m = gpt2_new(&b, &c, &use, e);
    int rc = !s.m || gpt2_init(s.m, 1, e) || ranks_open(r, comm, &b, s.m, e) ? -1 : 0;
    if (!rc && ranks_first(r))
        printf("%d ranks, one thread each, comm %s\n", r->meet.world, r->comm.ops->name);
    if (!rc)
        rc = bandwidths(r, e) || overlap(&s, e) ? -1 : 0;
    fflush(stdout);
    rc = ranks_end(r, rc, e);
    ranks_release(r);
    gpt2_free(s.m);
    backend_close(&b);
    free(s.ids);
    free(s.targets);
    free(s.seq);
    free(s.loss);
    return rc;
}

int main(int argc, char **argv)
{
    struct rendezvous_seat seat;
    struct ranks r;
    struct err e = {0};
    bool mpi = argc > 1 && strcmp(argv[1], "--mpi") == 0;
    int status, ranks = argc > 1 && !mpi ? (int)strtol(argv[1], NULL, 10) : 2, rc = 1;
    log_open("bench_comm", LOG_QUIET);
    if (!mpi && (ranks < 2 || ranks > 64)) {
        fprintf(stderr, "bench_comm: want 2 to 64 ranks\n");
        return 2;
    }
    if (!mpi)
        rc = launch_ranks(ranks, &seat, &status, &e);
    if (rc == 1)
        rc = ranks_join(&r, mpi ? NULL : &seat, "bench_comm", &e)
                 ? -1
                 : run(&r, mpi ? "mpi" : "shm", &e);
    else if (rc == 0)
        rc = status;
    if (rc < 0)
        fprintf(stderr, "bench_comm: %s\n", e.msg);
    return rc < 0 ? 1 : rc;
}

/* test_cuda: the CUDA backend on the emulator: a model trains as on the CPU, activations of bf16 and
 * fp16 agree with the reference as far as their bits allow, fused and separate products agree, and
 * what is wrong is said.
 *
 * The conformance suite itself runs from tests/cli/cuda.t, with several schedules.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/harness.h"
#include "tests/tap.h"
#include "trainer/gpt2.h"

/* ---- a model ---- */

enum { STEPS = 20, B = 2, T = 48, V = 97, LAYERS = 2 };

static struct model_config config(float dropout)
{
    return (struct model_config){.layers = LAYERS,
                                 .heads = 2,
                                 .width = 32,
                                 .context = T,
                                 .vocab = V,
                                 .qkv_bias = true,
                                 .tied = true,
                                 .dropout = (double)dropout,
                                 .norm_eps = 1e-5,
                                 .init_std = 0.02};
}

/* Losses and norms of every step; the weights at the end. */
struct trained {
    double loss[STEPS], norm[STEPS];
    float *weights;
    int64_t n;
};

static bool train(struct trained *r, const char *backend, float dropout)
{
    struct backend b;
    struct err e = {0};
    struct model_config c = config(dropout);
    struct gpt2_use use = {.batch = B, .length = T, .train = true, .grain = 1};
    struct rng g = rng_make(1, "data", 0);
    int32_t ids[B * T], targets[B * T];
    float loss[B * T];
    uint64_t seq[B] = {11, 12};
    if (backend_open(&b, backend, 0, 1, &e) < 0) {
        printf("# %s\n", e.msg);
        return false;
    }
    struct gpt2 *m = gpt2_new(&b, &c, &use, &e);
    bool ok = m && gpt2_init(m, 5, &e) == 0;
    for (int s = 0; ok && s < STEPS; s++) {
        for (int i = 0; i < B * T; i++)
            ids[i] = (int32_t)rng_below(&g, V);
        for (int i = 0; i < B * T; i++)
            targets[i] = i % 7 == 6 ? -1 : (ids[i] * 3 + 1) % V;
        gpt2_zero_grad(m);
        struct gpt2_batch batch = {.ids = ids,
                                   .targets = targets,
                                   .seq = seq,
                                   .B = B,
                                   .T = T,
                                   .valid_total = B * T * 6 / 7,
                                   .seed = 5,
                                   .step = (uint64_t)s};
        struct gpt2_update u = {.lr = 1e-2,
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .eps = 1e-8,
                                .weight_decay = 0.1,
                                .clip = 1,
                                .step = s + 1};
        ok = gpt2_grad(m, &batch, loss, &e) == 0 && gpt2_update(m, &u, &r->norm[s], &e) == 0;
        r->loss[s] = 0;
        for (int i = 0; i < B * T; i++)
            r->loss[s] += (double)loss[i] / (B * T);
    }
    if (ok) { /* without the padding of the head, which is the device's own business */
        const struct params *p = gpt2_params(m);
        float *flat = mem_array((size_t)p->count, sizeof *flat);
        r->weights = mem_array((size_t)p->count, sizeof *r->weights);
        ok = gpt2_get(m, 'w', flat, &e) == 0;
        for (int i = 0; i < p->n; r->n += p->v[i++].count)
            memcpy(r->weights + r->n, flat + p->v[i].at, (size_t)p->v[i].count * sizeof *flat);
        free(flat);
    }
    if (!ok)
        printf("# %s\n", e.msg);
    gpt2_free(m);
    backend_close(&b);
    return ok;
}

static void test_training(float dropout)
{
    struct trained cpu = {0}, cuda = {0};
    bool ran = train(&cpu, "cpu", dropout) && train(&cuda, "cuda", dropout);
    CHECK(ran, "a model of 2 layers trains 20 steps on both, dropout %g", (double)dropout);
    if (ran) {
        double loss = 0, norm = 0, weight = 0;
        for (int s = 0; s < STEPS; s++) {
            loss = fmax(loss, fabs(cuda.loss[s] / cpu.loss[s] - 1));
            norm = fmax(norm, fabs(cuda.norm[s] / cpu.norm[s] - 1));
        }
        CHECK(cpu.n == cuda.n, "as many weights");
        for (int64_t i = 0; i < cpu.n; i++)
            weight = fmax(weight, fabs((double)cuda.weights[i] - (double)cpu.weights[i]));
        CHECK(cpu.loss[STEPS - 1] < 0.9 * cpu.loss[0], "the loss falls: %g to %g", cpu.loss[0],
              cpu.loss[STEPS - 1]);
        CHECK(loss < 1e-4, "losses of all steps agree with the CPU's: off by %.2g", loss);
        CHECK(norm < 1e-3, "norms agree: off by %.2g", norm);
        CHECK(weight < 2e-3, "weights agree after 20 steps: off by %.2g", weight);
    }
    free(cpu.weights);
    free(cuda.weights);
}

/* ---- what opening says ---- */

static void test_opening(void)
{
    struct backend b;
    struct err e = {0};
    setenv("CUEMU_DRIVER", "12020", 1);
    CHECK(backend_open(&b, "cuda", 0, 1, &e) < 0 && strstr(e.msg, "the driver knows CUDA 12.2"),
          "a driver too old says what it knows and what is needed: %s", e.msg);
    setenv("CUEMU_DRIVER", "0", 1);
    CHECK(backend_open(&b, "cuda", 0, 1, &e) < 0 && strstr(e.msg, "no NVIDIA driver"),
          "without a driver: %s", e.msg);
    CHECK(backend_open(&b, NULL, 0, 1, &e) == 0 && strcmp(b.ops->name, "cpu") == 0,
          "and auto takes the CPU");
    backend_close(&b);
    unsetenv("CUEMU_DRIVER");
    setenv("CUEMU_DEVICES", "0", 1);
    CHECK(backend_open(&b, "cuda", 0, 1, &e) < 0 && strstr(e.msg, "no device"),
          "without a device: %s", e.msg);
    unsetenv("CUEMU_DEVICES");
    setenv("CUEMU_MEMORY", "100000000", 1);
    CHECK(backend_open(&b, "cuda", 0, 1, &e) == 0 && op_alloc(&b, 90000000) == NULL &&
              op_sync(&b, &e) < 0 && strstr(e.msg, "no memory for 90000000 bytes"),
          "memory that is not there: %s", e.msg);
    backend_close(&b);
    unsetenv("CUEMU_MEMORY");
}

/* Uploads beyond the number of page-locked slots, with streams as late as they may be. */
static void test_uploads(void)
{
    struct backend b;
    struct err e = {0};
    enum { N = 100 };
    int32_t got[N], v;
    setenv("CUEMU_LAZY", "1", 1);
    CHECK(backend_open(&b, "cuda", 0, 1, &e) == 0, "open");
    struct tensor t = tensor_1d(DTYPE_I32, op_alloc(&b, N * sizeof v), N);
    for (v = 0; v < N; v++) {
        struct tensor one = tensor_1d(DTYPE_I32, (int32_t *)t.data + v, 1);
        op_put(&b, &one, &v); /* v changes at once */
    }
    op_wait(&b, op_mark(&b));
    op_get(&b, got, &t);
    bool same = op_sync(&b, &e) == 0;
    for (int i = 0; i < N; i++)
        same = same && got[i] == i;
    CHECK(same, "what put() was given may change on return");
    /* More than all slots together hold. */
    enum { MANY = 3 << 20 };
    int32_t *big = mem_array(MANY, sizeof *big);
    t = tensor_1d(DTYPE_I32, op_alloc(&b, MANY * sizeof *big), MANY);
    for (int i = 0; i < MANY; i++)
        big[i] = i;
    op_put(&b, &t, big);
    memset(big, 0xff, MANY * sizeof *big);
    op_get(&b, big, &t);
    same = op_sync(&b, &e) == 0;
    for (int i = 0; i < MANY; i++)
        same = same && big[i] == i;
    CHECK(same, "however much it is");
    free(big);
    backend_close(&b);
    unsetenv("CUEMU_LAZY");
}

/* Token gradients of a batch of several words of chunks (trainer/cuda/embed.cu): ids that are everywhere,
 * rare ones, ones that come twice far apart, and ones whose low bits are equal. Whole numbers, so the sums
 * are exact whatever their order. */
static void test_links(void)
{
    enum { N = 9001, C = 4, IDS = 9000 };
    static const int32_t common[] = {5, 5 + 4096, 6, 8};
    struct rig r;
    rig_open(&r, "cuda", 0);
    struct rng k = rng_make(3, "links", 0);
    struct tensor ids;
    int32_t *id = ints_new(&r, &ids, N);
    for (int i = 0; i < N; i++)
        id[i] = rng_below(&k, 2) ? common[rng_below(&k, 4)] : (int32_t)rng_below(&k, IDS);
    id[0] = id[N - 1] = 4097;
    op_put(&r.b, &ids, id);
    ids = tensor_2d(DTYPE_I32, ids.data, 1, N);
    struct box dy = box_new(&r, 0, 0, 3, 1, N, C, 0), dwte = box_new(&r, 0, 0, 2, IDS, C, 0, 0);
    struct box dwpe = box_new(&r, 0, 0, 2, N, C, 0, 0);
    for (int64_t i = 0; i < dy.n; i++) {
        dy.want[i] = (double)rng_below(&k, 7) - 3;
        dwte.want[id[i / C] * C + i % C] += dy.want[i];
    }
    box_put(&r, &dy);
    op_embed_bwd(&r.b, &dwte.t, &dwpe.t, &dy.t, &ids, (struct dropout){0});
    CHECK(box_error(&r, &dwte) == 0, "token gradients of %d tokens", N);
    rig_close(&r);
}

int main(void)
{
    char here[1024];
    const char *build = getenv("BUILD");
    snprintf(here, sizeof here, "%s/cudaemu", build ? build : "build");
    setenv("ASSAY_LIBDIR", here, 1);
    test_opening();
    test_uploads();
    test_links();
    test_training(0);
    test_training(0.1f);
    return tap_done();
}

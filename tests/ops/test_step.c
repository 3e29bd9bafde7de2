/* test_step: products while decoding (linear_step of the CPU backend): right values, the same bits for
 * a row whatever rows are beside it and for any number of threads, f32 and bf16 weights, at every level
 * of vector kernels that this machine has.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/harness.h"
#include "tests/tap.h"
#include "trainer/cpu/machine.h"

enum { ROWS = 19 }; /* more than the 16 that share a reading of the weights */

struct product {
    struct rig r;
    int64_t I, O;
    enum weight_layout layout;
    struct box x, w, bias;
    struct tensor narrow; /* w in bf16 */
};

/* The weights become those of the bf16 copy, so that the reference reads what the product reads. */
static void narrow(struct product *p)
{
    uint16_t *host = arena_array(&p->r.arena, (size_t)p->w.n, sizeof *host);
    p->narrow = p->w.t;
    p->narrow.type = DTYPE_BF16;
    p->narrow.data = op_alloc(&p->r.b, (size_t)p->w.n * sizeof *host);
    op_cast(&p->r.b, &p->narrow, &p->w.t, NULL);
    op_get(&p->r.b, host, &p->narrow);
    for (int64_t i = 0; i < p->w.n; i++) {
        uint32_t u = (uint32_t)host[i] << 16;
        float v;
        memcpy(&v, &u, sizeof v);
        p->w.want[i] = (double)v;
    }
}

static void open_product(struct product *p, int threads, int64_t I, int64_t O, int layout)
{
    rig_open(&p->r, "cpu", threads);
    p->I = I;
    p->O = O;
    p->layout = (enum weight_layout)layout;
    p->x = box_new(&p->r, 0, 1, 2, ROWS, I, 0, 0);
    p->w = box_new(&p->r, 0, 1, 2, layout ? O : I, layout ? I : O, 0, 0);
    p->bias = box_new(&p->r, 0, 1, 1, O, 0, 0, 0);
}

/* Rows [from, from + n) alone. gelu's input comes back. */
static struct box step(struct product *p, bool bf16, int64_t from, int64_t n, struct box *pre)
{
    struct box y = box_new(&p->r, 0, 0, 2, n, p->O, 0, 0);
    struct tensor x = tensor_2d(DTYPE_F32, (float *)p->x.t.data + from * p->I, n, p->I);
    *pre = box_new(&p->r, 0, 0, 2, n, p->O, 0, 0);
    op_linear_step(&p->r.b, &y.t, &x, bf16 ? &p->narrow : &p->w.t, p->layout, &p->bias.t, &pre->t);
    box_get(&p->r, &y);
    box_get(&p->r, pre);
    return y;
}

static void check_alone(struct product *p, bool bf16, const struct box *all, const char *name)
{
    bool same = true;
    struct box pre;
    for (int64_t n = 1; n < ROWS && same; n++)
        for (int64_t from = 0; from + n <= ROWS && same; from += from + 2 * n > ROWS ? 1 : n) {
            struct box y = step(p, bf16, from, n, &pre);
            same = memcmp(y.got, all->got + from * p->O, (size_t)y.n * sizeof *y.got) == 0;
        }
    CHECK(same, "%s: a row alone has the bits it has among %d", name, ROWS);
}

static void check_threads(struct product *p, bool bf16, const struct box *all, const char *name)
{
    struct product q;
    struct box pre;
    open_product(&q, 3, p->I, p->O, p->layout);
    if (bf16)
        narrow(&q);
    struct box y = step(&q, bf16, 0, ROWS, &pre);
    CHECK(memcmp(y.got, all->got, (size_t)y.n * sizeof *y.got) == 0,
          "%s: three threads give the bits of one", name);
    rig_close(&q.r);
}

static void test_shape(const char *level, int64_t I, int64_t O, int layout, bool bf16)
{
    struct product p;
    struct box pre;
    char name[96];
    snprintf(name, sizeof name, "%s %s %lld to %lld%s", level, bf16 ? "bf16" : "f32", (long long)I,
             (long long)O, layout ? " (out x in)" : "");
    open_product(&p, 1, I, O, layout);
    if (bf16)
        narrow(&p);
    struct box all = step(&p, bf16, 0, ROWS, &pre);
    ref_linear_fwd(ROWS, I, O, all.want, p.x.want, p.w.want, layout == WEIGHT_OUT_IN, p.bias.want,
                   pre.want);
    CHECK(box_error(&p.r, &all) < 2e-5 && box_error(&p.r, &pre) < 2e-5,
          "%s: as the reference (%.1e, %.1e)", name, box_error(&p.r, &all), box_error(&p.r, &pre));
    check_alone(&p, bf16, &all, name);
    check_threads(&p, bf16, &all, name);
    CHECK(rig_ok(&p.r) && !p.r.guard_broken, "%s: nothing is written beyond the end", name);
    rig_close(&p.r);
}

static void test_level(const char *level)
{
    static const int64_t shapes[][2] = {{768, 2304}, {192, 64}, {100, 50}, {33, 7},
                                        {1, 5},      {17, 259}, {1600, 97}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int k = 0; k < 4; k++)
            test_shape(level, shapes[i][0], shapes[i][1], k & 1, k > 1);
}

/* Ties to even, carries into the exponent, infinities and NaN. */
static void test_cast(void)
{
    static const struct {
        uint32_t from;
        uint16_t to;
    } rows[] = {
        {0x3F800000, 0x3F80}, {0x3F808000, 0x3F80}, {0x3F818000, 0x3F82}, {0x3F808001, 0x3F81},
        {0x3F807FFF, 0x3F80}, {0x3FFFFFFF, 0x4000}, {0x80000000, 0x8000}, {0x7F800000, 0x7F80},
        {0x7F7FFFFF, 0x7F80}, {0x7F800001, 0x7FC0}, {0xFF80FFFF, 0xFFC0}, {0x00000001, 0x0000},
    };
    enum { N = sizeof rows / sizeof *rows };
    struct rig r;
    uint32_t in[N];
    uint16_t out[N];
    rig_open(&r, "cpu", 1);
    struct tensor from = tensor_1d(DTYPE_F32, op_alloc(&r.b, sizeof in), N);
    struct tensor to = tensor_1d(DTYPE_BF16, op_alloc(&r.b, sizeof out), N);
    for (int i = 0; i < N; i++)
        in[i] = rows[i].from;
    op_put(&r.b, &from, in);
    op_cast(&r.b, &to, &from, NULL);
    memcpy(out, to.data, sizeof out);
    for (int i = 0; i < N; i++)
        CHECK(out[i] == rows[i].to, "bf16 of %08x is %04x, not %04x", rows[i].from, rows[i].to,
              out[i]);
    struct rounding random = {.key = 1};
    op_cast(&r.b, &to, &from, &random);
    CHECK(!rig_ok(&r), "stochastic rounding is refused, not ignored");
    rig_close(&r);
}

int main(void)
{
    static const char *const levels[] = {"v2", "v3", "v4", "generic"};
    struct err e;
    for (int i = 0; i < 4; i++) {
        setenv("ASSAY_CPU_LEVEL", levels[i], 1);
        if (cpu_vec(&e))
            test_level(levels[i]);
        else
            printf("# no kernels %s on this CPU\n", levels[i]);
    }
    unsetenv("ASSAY_CPU_LEVEL");
    test_cast();
    return tap_done();
}

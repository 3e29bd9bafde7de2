/* Planning: memory under recomputation, calibration, and the alpha-beta model at closed forms. */
#include "tests/tap.h"

#include "base/mem.h"
#include "trainer/plan_roof.h"
#include "trainer/plan_scale.h"
#include "trainer/schedule.h"

static struct arena A;
static struct err E;

static void memory(void)
{
    struct model_config m = {.layers = 12,
                             .heads = 12,
                             .width = 768,
                             .context = 1024,
                             .vocab = 50257,
                             .inner = 3072,
                             .norm_eps = 1e-5};
    struct gpt2_plan p[RECOMPUTES], one;
    struct train_config fp32 = {.batch = 4};
    int64_t rows = 4 * 1024 * 4; /* bytes of one float a row, four sequences */
    for (int how = 0; how < RECOMPUTES; how++)
        plan_memory(&m, &fp32, "cpu", 4, (enum recompute)how, &p[how]);
    struct gpt2_use use = {.batch = 4, .length = 1024, .train = true, .grain = 1};
    gpt2_plan(&m, &use, &one);
    CHECK_INT(p[RECOMPUTE_NONE].total, one.total, "none: what train allocates");
    CHECK_INT(p[RECOMPUTE_NONE].total - p[RECOMPUTE_GELU].total, 11 * rows * 3072,
              "gelu: eleven outputs of GELU less");
    /* A block keeps x norm1 att mid norm2 (5 C), q k v (3 C), pre and act (8 C), lse and 4 numbers. */
    CHECK_INT(p[RECOMPUTE_NONE].total - p[RECOMPUTE_LAYER].total, 11 * rows * (15 * 768 + 12 + 4),
              "layer: eleven blocks keep only their input");
    CHECK(p[RECOMPUTE_LAYER].params == one.params && p[RECOMPUTE_LAYER].moments == one.moments,
          "weights and moments stay");
    CHECK_NEAR(plan_work(&m, RECOMPUTE_GELU), 1, 0, "gelu is no work of the matrix units");
    struct model_config empty = m;
    empty.layers = 0;
    double all = schedule_flops(&m, 1024), rest = schedule_flops(&empty, 1024);
    CHECK_NEAR(plan_work(&m, RECOMPUTE_LAYER), 1 + (all - rest) / 3 / all, 1e-12,
               "layer: one more forward pass of the blocks");
    CHECK(plan_work(&m, RECOMPUTE_LAYER) < 4.0 / 3, "which is less than a third");
}

/* Bytes of the 163M model on a GPU by hand: what is there once, and what a sequence adds while the
 * logits fill their buffer. */
static double by_hand(int64_t n, double size, int how)
{
    double L = 12, C = 768, H = 12, T = 1024, V = 50304, rows = (double)n * T;
    double flat = 163009536 + (V - 50257) * C;
    double copies = flat * (16 + (size < 4 ? size : 0));
    double logit_rows = floor(536870912 / V / 16) * 16;
    double logits = fmin(logit_rows, rows) * V * size;
    double acts = how == RECOMPUTE_LAYER  ? L * C + 15 * C
                  : how == RECOMPUTE_GELU ? L * 12 * C + 4 * C
                                          : L * 16 * C;
    double stats = how == RECOMPUTE_LAYER ? H + 4 : L * (H + 4);
    double rest =
        (3 + 10) * C * size + 4 * (2 + 3); /* branch, last x and norm, gradients; numbers */
    return copies + logits + rows * (acts * size + stats * 4 + rest) + 12 * (double)n + 64;
}

static void gpus(void)
{
    static const double gib[] = {24, 40, 80, 160};
    struct run r = {0};
    struct hardware h;
    schema_defaults(&run_schema, &r, &A, &E);
    schema_defaults(&hardware_schema, &h, &A, &E);
    r.model.vocab = 50257;
    r.model.tied = r.model.qkv_bias = false;
    for (size_t k = 0; k < sizeof gib / sizeof *gib; k++) {
        struct plan_options o = {.run = &r,
                                 .hardware = &h,
                                 .utilisation = 0.35,
                                 .tokens_per_s = NAN,
                                 .reserve_gib = 1.5,
                                 .measured = {.utilisation = NAN}};
        struct plan_result p;
        h.memory_gib = gib[k];
        CHECK(plan_make(&p, &o, &E) == 0 && p.parameters == 163009536, "%g GiB: a plan", gib[k]);
        for (int narrow = 0; narrow < 2; narrow++)
            for (int how = 0; how < RECOMPUTES; how++) {
                int64_t n = 0;
                double room = (gib[k] - 1.5) * (1 << 30);
                while (by_hand(n + 1, narrow ? 2 : 4, how) <= room)
                    n++;
                CHECK_INT(p.fits[narrow][how], n, "%g GiB, %s, %s: as by hand", gib[k],
                          narrow ? "bf16" : "fp32", recompute_names[how]);
            }
    }
}

static struct result ran(const char *run, const char *device, int64_t parameters, double rate)
{
    struct result r;
    schema_defaults(&result_schema, &r, &A, &E);
    r.run = str_z(run);
    r.parameters = parameters;
    r.hardware.device = str_z(device);
    r.hardware.devices = 2;
    r.hardware.peak_tflops = 100;
    r.config.model.vocab = 50257;
    r.timing.tokens_per_second = rate;
    return r;
}

static void calibration(void)
{
    struct hardware h;
    schema_defaults(&hardware_schema, &h, &A, &E);
    h.device = STR_LIT("D");
    struct result v[] = {ran("a", "D", 124000000, 1000),     ran("b", "D", 100000000, 3000),
                         ran("c", "D", 130000000, 2000),     ran("other", "E", 124000000, 9000),
                         ran("huge", "D", 999000000, 9000),  ran("bf16", "D", 124000000, 9000),
                         ran("untimed", "D", 124000000, NAN)};
    v[5].config.train.precision = PRECISION_BF16;
    double flops = schedule_flops(&v[0].config.model, v[0].config.model.context);
    struct calibration c = plan_calibrate(v, 7, &h, PRECISION_FP32, 125000000, &A);
    CHECK_INT(c.runs, 3, "another device, size or precision is no measure");
    CHECK_NEAR(c.utilisation, 2000 * flops / 200e12, 1e-12, "the median share of the peak");
    CHECK_STR(c.run, "a", "the nearest in size is named");
    for (int i = 0; i < 3; i++) {
        v[i].hardware.devices = 8;
        v[i].hardware.used = 2;
    }
    c = plan_calibrate(v, 7, &h, PRECISION_FP32, 125000000, &A);
    CHECK_NEAR(c.utilisation, 2000 * flops / 200e12, 1e-12,
               "two ranks on a machine of eight: the share of the peak of two");
    c = plan_calibrate(v, 7, &h, PRECISION_FP16, 125000000, &A);
    CHECK(isnan(c.utilisation) && c.runs == 0, "no run, no calibration");
}

static void scaling(void)
{
    struct scale_options o = {.link_gbs = 100,
                              .link_us = 5,
                              .net_gbs = 10,
                              .net_us = 20,
                              .node = 8,
                              .gradient_bytes = 1e9,
                              .bucket_bytes = 1e9,
                              .overlap = 0.8,
                              .device_flops = 1e12,
                              .flops_token = 1e9,
                              .batch = 512,
                              .context = 1000,
                              .micro = 16};
    struct scale s, before = {0};
    CHECK_NEAR(plan_allreduce(&o, 1, 1e9), 0, 0, "one device sums nothing");
    CHECK_NEAR(plan_allreduce(&o, 2, 1e9), 2 * (5e-6 + 0.5e9 / 100e9), 1e-15,
               "two: half there, half back");
    CHECK_NEAR(plan_allreduce(&o, 8, 1e9), 2 * 7 * (5e-6 + 1e9 / 8 / 100e9), 1e-15,
               "eight in a ring");
    CHECK_NEAR(plan_allreduce(&o, 32, 1e9),
               2 * 7 * (5e-6 + 1e9 / 8 / 100e9) + 2 * 3 * (20e-6 + 1e9 / 8 / 4 / 10e9), 1e-15,
               "four machines: an eighth of it goes between them");
    plan_scale(&s, &o, 1);
    CHECK_NEAR(s.step, 512, 1e-9, "one device: work over speed");
    CHECK_NEAR(s.efficiency, 1, 1e-12, "is the measure");
    CHECK_INT(s.passes, 32, "in 32 passes of 16");
    plan_scale(&s, &o, 8);
    CHECK_NEAR(s.step, 64 + plan_allreduce(&o, 8, 1e9), 1e-9, "one bucket can't hide");
    o.bucket_bytes = 1e8;
    plan_scale(&s, &o, 8);
    CHECK_NEAR(s.exposed, plan_allreduce(&o, 8, 1e8), 1e-9,
               "of ten buckets nine hide behind the backward pass");
    o.net_gbs = 0.01; /* too slow to hide */
    plan_scale(&s, &o, 64);
    double hide = 0.8 * 2 / 3 * s.compute; /* one pass */
    CHECK_NEAR(s.exposed, 10 * plan_allreduce(&o, 64, 1e8) - hide, 1e-9, "a slow network shows");
    o.net_gbs = 10;
    for (int64_t n = 1; n <= 1024; n *= 2) {
        plan_scale(&s, &o, n);
        CHECK(s.efficiency <= 1 + 1e-12 && (n == 1 || s.efficiency <= before.efficiency + 1e-12),
              "%lld devices keep %.3f of linear, no more than fewer", (long long)n, s.efficiency);
        before = s;
    }
    CHECK_INT(s.busy, 512, "512 sequences keep 512 devices busy");
    plan_scale(&s, &o, 100);
    CHECK_INT(s.per_device, 6, "an uneven share: the fullest device decides");
}

/* Bytes of a step by hand: two blocks, width 64, one pass of 100 tokens in f32 on a CPU. */
static void roofline(void)
{
    struct model_config m = {.layers = 2,
                             .heads = 2,
                             .width = 64,
                             .context = 10,
                             .vocab = 1000,
                             .inner = 256,
                             .qkv_bias = true};
    struct train_config c = {.batch = 10};
    struct roof_step s = {100, 1, 1};
    double b[ROOFS], more[ROOFS];
    plan_roof_bytes(&m, &c, "cpu", &s, b);
    CHECK_NEAR(b[ROOF_NORMS], 400.0 * (2 * 2 + 1) * 8 * 64, 0, "five norms, 4 C there, 4 C back");
    CHECK_NEAR(b[ROOF_ATTENTION], 400.0 * 2 * 12 * 64, 0, "attention: 4 C there, 8 C back");
    CHECK_NEAR(b[ROOF_MLP], 400.0 * 2 * 2 * 256, 0, "GELU's input, written and read");
    CHECK_NEAR(b[ROOF_BIASES], 400.0 * 2 * (256 + 5 * 64), 0, "gradients of biases");
    CHECK_NEAR(b[ROOF_ADAMW], (double)params_count(&m) * (4 + 8 + 4 + 28), 0, "AdamW in f32");
    s.passes = 3;
    c.recompute = RECOMPUTE_LAYER;
    plan_roof_bytes(&m, &c, "cpu", &s, more);
    CHECK_NEAR(more[ROOF_ADAMW] - b[ROOF_ADAMW], 16.0 * (double)params_count(&m), 0,
               "two passes more add to the gradients twice");
    CHECK_NEAR(more[ROOF_NORMS] - b[ROOF_NORMS], 400.0 * 2 * 2 * 4 * 64, 0,
               "layer: the blocks' norms again");
    c = (struct train_config){.batch = 10, .zero = 1};
    s = (struct roof_step){100, 1, 4};
    plan_roof_bytes(&m, &c, "cpu", &s, more);
    CHECK_NEAR(b[ROOF_ADAMW] - more[ROOF_ADAMW], 21.0 * (double)params_count(&m), 0,
               "zero: a quarter of the moments' passes");
}

int main(void)
{
    memory();
    gpus();
    calibration();
    scaling();
    roofline();
    arena_release(&A);
    return tap_done();
}

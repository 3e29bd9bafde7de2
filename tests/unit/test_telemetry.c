/* test_telemetry: readings of a device that says much, little or nothing; the journal's rows. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "tests/tap.h"
#include "trainer/telemetry.h"

/* What the device says next. */
struct planted {
    struct device_reading say;
    int asked;
};

static void reading(struct backend *b, struct device_reading *r)
{
    struct planted *p = b->impl;
    *r = p->say;
    p->asked++;
}

static const struct backend_ops talks = {.name = "planted", .reading = reading};
static const struct backend_ops host = {.name = "host"};

static struct device_reading says(double memory, double power, double energy, const char *name)
{
    struct device_reading r = {memory, NAN, power, energy, "", ""};
    snprintf(r.device, sizeof r.device, "%s", name);
    return r;
}

static struct metrics_row row(int64_t step)
{
    return (struct metrics_row){.step = step, .tokens_per_s = 1000, .val_loss = NAN};
}

static void test_counter(void)
{
    struct planted p = {says(100, 50, 7000, "NVIDIA H200"), 0};
    struct backend b = {.ops = &talks, .impl = &p};
    struct clock clock = clock_fake(0);
    struct telemetry t = {.clock = &clock, .every = 2};
    telemetry_begin(&t, &b, NULL, 1e9, PRECISION_BF16, 4);
    struct metrics_row r = row(1);
    p.say.energy_j += 30;
    p.say.memory_used = 300;
    telemetry_step(&t, &r, false);
    CHECK(r.measured && r.energy_j == 30 && r.memory == 300 && r.power_w == 50,
          "the first step has readings: %g J since the start", r.energy_j);
    CHECK_NEAR(r.mfu, 1000 * 1e9 / (4 * 989e12), 1e-12, "its share of the peak of four H200");
    CHECK(strstr(t.peak_from, "NVIDIA H200: 4 x 989"), "and where that peak is from: %s",
          t.peak_from);
    r = row(2);
    clock.at += 1;
    p.say.energy_j += 30;
    int before = p.asked;
    telemetry_step(&t, &r, false);
    CHECK(!r.measured && p.asked == before, "within the interval nobody is asked");
    r = row(3);
    clock.at += 1;
    p.say.memory_used = 200;
    telemetry_step(&t, &r, false);
    CHECK(r.measured && r.energy_j == 60, "behind it the counter has gone on");
    CHECK(telemetry_used(&t) == 60 && telemetry_used(&t) == 0, "what was used is given out once");
    r = row(4);
    p.say.energy_j += 5;
    telemetry_step(&t, &r, true);
    CHECK(r.measured && r.energy_j == 65, "the last step is asked whatever the time");
    CHECK(t.memory_most == 300 && !t.by_power, "the most memory is kept");
}

static void test_power(void)
{
    struct planted p = {says(100, 40, NAN, "some card"), 0};
    struct backend b = {.ops = &talks, .impl = &p};
    struct clock clock = clock_fake(0);
    struct telemetry t = {.clock = &clock, .every = 1};
    struct hardware h = {.name = STR_LIT("box"), .count = 8, .peak_tflops = 3};
    telemetry_begin(&t, &b, &h, 1e9, PRECISION_BF16, 2);
    struct metrics_row r = row(1);
    clock.at += 10;
    p.say.power_w = 60;
    telemetry_step(&t, &r, false);
    CHECK_NEAR(r.energy_j, 500, 1e-9, "without a counter energy is power over time");
    CHECK(t.by_power, "and that is said");
    CHECK_NEAR(r.mfu, 1000 * 1e9 / 6e12, 1e-12,
               "the hardware file's peak counts, of the two devices that are used of eight");
    p.say = says(100, 60, 10, "some card");
    clock.at += 10;
    r = row(2);
    telemetry_step(&t, &r, false);
    CHECK_NEAR(r.energy_j, 1100, 1e-9, "a counter that comes later counts from its second word on");
}

/* Whose peak it is: the file's for its own card, never that of another one or another width. */
static void test_card(void)
{
    struct planted p = {says(100, 40, NAN, "NVIDIA H200"), 0};
    struct backend b = {.ops = &talks, .impl = &p};
    struct clock clock = clock_fake(0);
    struct telemetry t = {.clock = &clock};
    struct hardware h = {.name = STR_LIT("box"),
                         .count = 8,
                         .peak_tflops = 3,
                         .driver_name = STR_LIT("*A100*40GB | *H200")};
    telemetry_begin(&t, &b, &h, 1e9, PRECISION_BF16, 2);
    CHECK_NEAR(t.peak, 6e12, 1, "a pattern that the name fits: the file's peak");
    CHECK(strstr(t.peak_from, "file box: 2 x 3 TFLOP/s"), "and that is said: %s", t.peak_from);
    h.driver_name = STR_LIT("*A100*40GB");
    telemetry_begin(&t, &b, &h, 1e9, PRECISION_BF16, 2);
    CHECK_NEAR(t.peak, 2 * 989e12, 1, "another card: the file's peak is not taken, the table's is");
    h.peak_tflops = NAN;
    h.driver_name = (struct str){0};
    telemetry_begin(&t, &b, &h, 1e9, PRECISION_FP32, 2);
    CHECK(isnan(t.peak) && strstr(t.peak_from, "has none of fp32") &&
              strstr(t.peak_from, "hardware.peak_fp32"),
          "no peak of bf16 for a run in fp32, and why: %s", t.peak_from);
    p.say = says(100, 40, NAN, "");
    h = (struct hardware){
        .name = STR_LIT("box"), .count = 8, .peak_tflops = 3, .driver_name = STR_LIT("*A100*40GB")};
    telemetry_begin(&t, &b, &h, 1e9, PRECISION_BF16, 1);
    CHECK_NEAR(t.peak, 3e12, 1, "a device that says no name is believed to be the file's");
}

static void test_silence(void)
{
    struct planted p = {says(NAN, NAN, NAN, "some card"), 0};
    struct backend b = {.ops = &talks, .impl = &p};
    struct clock clock = clock_fake(0);
    struct telemetry t = {.clock = &clock};
    telemetry_begin(&t, &b, NULL, 1e9, PRECISION_BF16, 1);
    struct metrics_row r = row(1);
    clock.at += 10;
    telemetry_step(&t, &r, false);
    CHECK(r.measured && isnan(r.memory) && isnan(r.power_w) && isnan(r.energy_j) && isnan(r.mfu),
          "what is not said is not a number, never 0");
    p.say = says(1, 2, 3, "some card");
    r = row(2);
    clock.at += 10;
    telemetry_step(&t, &r, false);
    CHECK(r.power_w == 2 && isnan(r.energy_j) && isnan(telemetry_used(&t)),
          "energy of which a part is unknown is unknown");
    b.ops = &host;
    t = (struct telemetry){.clock = &clock};
    telemetry_begin(&t, &b, NULL, 1e9, PRECISION_BF16, 1);
    r = row(1);
    telemetry_step(&t, &r, false);
    CHECK(r.memory > 4096 && isnan(r.power_w) && isnan(r.energy_j) && isnan(r.mfu),
          "on the host: this process's memory, %.0f bytes, and no more", r.memory);
}

static void test_peaks(void)
{
    CHECK(telemetry_peak("NVIDIA A100-SXM4-40GB") == 312 && telemetry_peak("NVIDIA B200") == 2250 &&
              telemetry_peak("NVIDIA H100 PCIe") == 756,
          "cards are known by the names that drivers give");
    CHECK(isnan(telemetry_peak("NVIDIA GeForce RTX 3090 Ti")) &&
              isnan(telemetry_peak("NVIDIA H100 80GB HBM3 MIG 1g.10gb")) &&
              isnan(telemetry_peak("")),
          "a name that only begins alike is not one of them");
}

static void test_rows(void)
{
    char path[] = "/tmp/telemetry-XXXXXX";
    struct metrics m;
    struct err e = {0};
    struct arena a = {0};
    struct metrics_row in[3] = {row(1), row(2), row(3)}, *out;
    size_t n = 0;
    in[0].measured = in[2].measured = true;
    in[0].memory = 5e9;
    in[0].power_w = 250.5;
    in[0].energy_j = in[0].mfu = NAN;
    in[1].ms_comm = 2.5;
    close(mkstemp(path));
    CHECK(metrics_open(&m, path, 0, &e) == 0, "a journal");
    for (int i = 0; i < 3; i++)
        CHECK(metrics_add(&m, &in[i], &e) == 0, "row %d", i + 1);
    metrics_close(&m);
    struct buf text = {0};
    CHECK(file_read(path, &text, 1 << 20, &e) == 0, "read it");
    CHECK(str_find(buf_str(&text), str_z("\"memory\":5e+09,\"power_w\":250.5,\"energy_j\":null,"
                                         "\"mfu\":null}\n")) >= 0,
          "unknown is null in the file");
    buf_release(&text);
    CHECK(metrics_read(path, &out, &n, &a, &e) == 0 && n == 3 && out[0].measured &&
              out[0].memory == 5e9 && isnan(out[0].energy_j) && !out[1].measured &&
              out[1].ms_comm == 2.5 && out[2].energy_j == 0,
          "and comes back as it went in");
    arena_release(&a);
    unlink(path);
}

int main(void)
{
    test_counter();
    test_power();
    test_card();
    test_silence();
    test_peaks();
    test_rows();
    return tap_done();
}

/* Tokens to steps, and the learning rate of each step. */
#include "tests/tap.h"
#include "trainer/schedule.h"

static void test_tokens(void)
{
    static const struct {
        const char *text;
        int64_t want;
    } good[] = {{"800K", 800000}, {"5000", 5000},    {"3.2G", 3200000000}, {"20n", 2000},
                {"1.5n", 150},    {"0.25M", 250000}, {"1_000", 1000},      {" 7 ", 7}};
    static const char *const bad[] = {"", "n", "-5", "0", "12x", "1e30", "nan", "20 n n", "K"};
    struct err e = {0};
    int64_t n;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        n = -1;
        schedule_tokens(str_z(good[i].text), 100, &n, &e);
        CHECK_INT(n, good[i].want, "\"%s\" with 100 parameters", good[i].text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(schedule_tokens(str_z(bad[i]), 100, &n, &e) == -1 && e.code == EXIT_USAGE,
              "\"%s\" is refused", bad[i]);
    schedule_tokens(str_z("20n"), 163009536, &n, &e);
    CHECK_INT(n, 3260190720, "20n of the 163M model is the reference series' budget");
    CHECK_INT(schedule_steps(n, 104, 1024), 30614, "on 8 x 13 sequences that is 30,614 steps");
    CHECK_INT(schedule_steps(n, 216, 1024), 14740, "on 8 x 27 it is 14,740");
    CHECK_INT(schedule_steps(1, 4, 8), 1, "one token is one step");
    CHECK_INT(schedule_steps(33, 4, 8), 2, "a step and a token are two steps");
}

static void test_rates(void)
{
    struct train_config c = {.lr = 1, .min_lr = 0.1, .warmup = 0.1, .schedule = LR_COSINE};
    CHECK_NEAR(schedule_lr(&c, 1, 100), 0.1, 1e-12, "warm-up starts at lr / W");
    CHECK_NEAR(schedule_lr(&c, 10, 100), 1, 1e-12, "and reaches lr in its last step");
    CHECK_NEAR(schedule_lr(&c, 11, 100), 1, 1e-12, "cosine starts at lr");
    CHECK_NEAR(schedule_lr(&c, 56, 100), 0.1 + 0.9 * 0.5, 1e-12, "is halfway down in the middle");
    CHECK(schedule_lr(&c, 100, 100) < 0.102 && schedule_lr(&c, 100, 100) > 0.1,
          "and ends at min_lr");
    c.schedule = LR_LINEAR;
    CHECK_NEAR(schedule_lr(&c, 56, 100), 0.1 + 0.9 * 0.5, 1e-12, "linear is halfway as well");
    CHECK_NEAR(schedule_lr(&c, 38, 100), 0.1 + 0.9 * 0.7, 1e-12, "and straight");
    c.schedule = LR_CONSTANT;
    CHECK_NEAR(schedule_lr(&c, 5, 100), 0.5, 1e-12, "constant warms up too");
    CHECK_NEAR(schedule_lr(&c, 100, 100), 1, 1e-12, "and stays");
    c.schedule = LR_WSD;
    CHECK_NEAR(schedule_lr(&c, 81, 100), 1, 1e-12, "wsd holds lr to four fifths");
    CHECK_NEAR(schedule_lr(&c, 86, 100), 0.1 + 0.9 * 0.5, 1e-12, "then falls with the root");
    CHECK(schedule_lr(&c, 100, 100) < 0.13, "towards min_lr");
    c = (struct train_config){.lr = 1, .schedule = LR_COSINE, .min_lr = 0.1};
    CHECK_NEAR(schedule_lr(&c, 1, 1), 1, 1e-12, "one step without warm-up is at lr");
    c.warmup = 1;
    CHECK_NEAR(schedule_lr(&c, 4, 4), 1, 1e-12, "all warm-up ends at lr");
    static const int kinds[] = {LR_CONSTANT, LR_LINEAR, LR_COSINE, LR_WSD};
    bool fine = true;
    for (size_t k = 0; k < 4; k++)
        for (int64_t steps = 1; steps < 40; steps++)
            for (int64_t s = 1; s <= steps; s++)
                for (int w = 0; w <= 4; w++) {
                    struct train_config d = {
                        .lr = 2, .min_lr = 0.05, .warmup = w / 4.0, .schedule = kinds[k]};
                    double lr = schedule_lr(&d, s, steps);
                    fine = fine && lr > 0 && lr <= 2 + 1e-12;
                }
    CHECK(fine, "every rate of every schedule is above 0 and at most lr");
}

static void test_flops(void)
{
    struct model_config c = {.layers = 12,
                             .heads = 12,
                             .width = 768,
                             .context = 1024,
                             .vocab = 50304,
                             .qkv_bias = true,
                             .tied = true};
    CHECK_NEAR(schedule_flops(&c, 1024) / 1e6, 803.5, 0.05,
               "GPT-2 small, padded, takes 803.5 MFLOP a token at T = 1024");
}

int main(void)
{
    test_tokens();
    test_rates();
    test_flops();
    return tap_done();
}

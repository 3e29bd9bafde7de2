/* Money: formulas at hand-computed points, segments, fronts, time to a loss, scaling. */
#include "tests/tap.h"

#include "base/file.h"
#include "base/mem.h"
#include "pipelines/money.h"
#include "pipelines/result_segments.h"
#include "trainer/segments.h"

static struct arena A;
static struct err E;

static struct result blank(void)
{
    struct result r;
    schema_defaults(&result_schema, &r, &A, &E);
    return r;
}

static void formulas(void)
{
    CHECK_NEAR(money_cost(1800, 10), 5, 1e-12, "half an hour");
    CHECK(isnan(money_cost(1800, NAN)), "no price, no cost");
    CHECK_NEAR(money_gtoken(20, 4e9), 5, 1e-12, "for 1e9 tokens");
    CHECK(isnan(money_gtoken(20, 0)), "without tokens there is none");
    CHECK_NEAR(money_mfu(1e6, 6e9, 8, 750), 1, 1e-12, "all of the peak");
    CHECK(isnan(money_mfu(1e6, 6e9, 0, 750)), "no devices, no share");
    CHECK_NEAR(money_scaling(700, 8, 100, 1), 0.875, 1e-12, "eight devices for seven");
    CHECK_NEAR(money_without(100, 3, 10), 70, 1e-12, "three validations less");
    CHECK_NEAR(money_energy_token(30, 10), 3, 1e-12, "joules a token");
}

static void fronts(void)
{
    const double cost[] = {1, 2, 2, 3, NAN, 4, 4}, loss[] = {5, 4, 4.5, 4, 1, 3, 3};
    const bool want[] = {true, true, false, false, false, true, true};
    bool got[7];
    money_front(cost, loss, 7, got);
    CHECK(memcmp(got, want, sizeof want) == 0, "front: dominated, unknown and equal ones");
}

static void reaching(void)
{
    double loss[] = {6, 5, 4, 4.5, 3}, seconds[] = {10, 20, 30, 40, 50};
    int64_t tokens[] = {100, 200, 300, 400, 500};
    struct result_curve c = {.loss = {loss, 5}, .seconds = {seconds, 5}, .tokens = {tokens, 5}};
    struct reached r;
    CHECK(money_reached(&c, 4.5, 1, &r), "reached");
    CHECK_NEAR(r.seconds, 25, 1e-9, "between the points by a straight line");
    CHECK_NEAR(r.tokens, 250, 1e-9, "in tokens as well");
    CHECK(r.seconds_lo == 20 && r.seconds_hi == 30, "the points around it are told");
    CHECK(money_reached(&c, 4.25, 2, &r), "smoothed over two points");
    CHECK_NEAR(r.seconds, 40, 1e-9, "a single dip counts half");
    CHECK(money_reached(&c, 7, 1, &r) && r.seconds == 10 && r.seconds_lo == 0, "at once");
    CHECK(!money_reached(&c, 2, 1, &r), "never");
    loss[2] = NAN;
    CHECK(money_reached(&c, 4.5, 1, &r) && r.seconds_hi == 40,
          "a loss that is no number is not below");
}

static void bills(void)
{
    struct result r = blank();
    struct bill b;
    r.tokens = 1000000000;
    r.steps = 1000;
    r.hardware.name = STR_LIT("a");
    r.hardware.devices = 8;
    r.hardware.peak_tflops = 312;
    r.hardware.price_hour = 10;
    r.timing.train_seconds = 7200;
    r.timing.val_seconds = 720;
    r.timing.eval_seconds = 360;
    r.timing.step_ms_p10 = 6000;
    r.timing.step_ms_p90 = 8000;
    money_bill(&b, &r, NULL, 0);
    CHECK_NEAR(b.train, 20, 1e-9, "training");
    CHECK_NEAR(b.without_val, 18, 1e-9, "without validation");
    CHECK_NEAR(b.total, 21, 1e-9, "with evaluation");
    CHECK_NEAR(b.gtoken, 18, 1e-9, "for 1e9 tokens");
    CHECK(isnan(b.billed), "billed is not guessed");
    CHECK_NEAR(b.rate, 1e9 / 6480, 1e-3, "tokens a second without validation");
    CHECK(b.rate_lo == 125000 && fabs(b.rate_hi - 1e6 / 6) < 1e-6, "spread from the steps");
    struct price p[] = {{{0}, 5}, {STR_LIT("a"), 20}};
    money_bill(&b, &r, p, 1);
    CHECK_NEAR(b.train, 10, 1e-9, "another price for all");
    money_bill(&b, &r, p, 2);
    CHECK_NEAR(b.train, 40, 1e-9, "one by name wins");
    r.cost_billed = 25;
    money_bill(&b, &r, NULL, 0);
    CHECK_NEAR(b.billed, 25, 1e-9, "billed, as entered");
    money_bill(&b, &r, p, 2);
    CHECK(isnan(b.billed), "at another price nobody was billed");
    r.hardware.price_hour = NAN;
    money_bill(&b, &r, NULL, 0);
    CHECK(isnan(b.train) && isnan(b.gtoken), "without a price nothing costs 0");
}

/* Three starts: one machine, another after a kill that took some steps, a third. */
static void moved(void)
{
    const char *dir = path_join(&A, tap_tmp(), "moved");
    struct segment s = {.host = STR_LIT("one"), .backend = STR_LIT("cpu"), .started = STR_LIT("x")};
    struct buf rows = {0};
    CHECK_INT(file_mkdirs(dir, &E), 0, "a folder");
    schema_defaults(&hardware_schema, &s.hardware, &A, &E);
    s.hardware.name = STR_LIT("small");
    s.hardware.price_hour = 3.6;
    CHECK_INT(segments_add(dir, &s, 0, 0, &E), 0, "first start");
    s.step = 4;
    s.tokens = 400;
    s.host = STR_LIT("two");
    s.hardware.name = STR_LIT("big");
    s.hardware.price_hour = 36;
    CHECK_INT(segments_add(dir, &s, 47, 40, &E), 0, "7 seconds were lost before the second");
    CHECK_INT(segments_add(dir, &s, 45, 40, &E), 0, "killed again before any checkpoint");
    s.step = 8;
    s.host = STR_LIT("three");
    CHECK_INT(segments_add(dir, &s, 60, 60, &E), 0, "a third start");
    for (int i = 1; i <= 10; i++)
        buf_printf(
            &rows,
            "{\"step\":%d,\"tokens\":%d,\"loss\":1,\"lr\":1,\"norm\":1,\"ms\":1,\"ms_data\":0,"
            "\"tokens_per_s\":1,\"seconds\":%d%s}\n",
            i, 100 * i, i <= 4 ? 10 * i : 40 + 5 * (i - 4), i == 5 ? ",\"ms_val\":2500" : "");
    CHECK_INT(file_write_all(path_join(&A, dir, "metrics.jsonl"), buf_str(&rows), &E), 0, "rows");
    struct result r = blank();
    CHECK_INT(result_segments(&r, dir, NULL, &A, &E), 0, "collected");
    const struct result_segment *v = r.segments.v;
    CHECK_INT(r.segments.n, 3, "three segments: a start that made nothing is gone");
    CHECK(v[0].steps == 4 && v[1].steps == 4 && v[2].steps == 2, "steps");
    CHECK(v[0].tokens == 400 && v[1].tokens == 400 && v[2].tokens == 200, "tokens");
    CHECK(v[0].seconds == 40 && v[1].seconds == 20 && v[2].seconds == 10, "seconds");
    CHECK_NEAR(v[0].money, 0.04, 1e-12, "money of the small machine");
    CHECK_NEAR(v[1].money, 0.2, 1e-12, "money of the big one");
    CHECK_NEAR(v[1].lost_seconds, 12, 1e-12, "both losses are kept");
    CHECK_NEAR(v[1].lost_money, 0.007 + 0.05, 1e-12,
               "each at the price of the machine that lost it");
    CHECK_NEAR(r.timing.val_seconds, 2.5, 1e-12, "validations");
    CHECK_NEAR(r.timing.lost_seconds, 12, 1e-12, "lost seconds");
    struct bill b;
    r.timing.train_seconds = 75; /* 5 s of checkpoints behind the last step */
    r.tokens = 1000;
    r.hardware.price_hour = 36;
    money_bill(&b, &r, NULL, 0);
    CHECK_NEAR(b.train, 0.04 + 0.2 + 0.1 + 0.05, 1e-12, "the bill is the sum over machines");
    double money, lost;
    money_segment(&r, 1, NULL, 0, &money, &lost);
    CHECK(money == v[1].money && lost == v[1].lost_money, "a segment's money is as it was kept");
    struct price p = {STR_LIT("small"), 7.2};
    money_bill(&b, &r, &p, 1);
    CHECK_NEAR(b.train, 0.08 + 0.2 + 0.1 + 0.05, 1e-12, "another price for one of them");
    money_segment(&r, 0, &p, 1, &money, &lost);
    CHECK_NEAR(money, 0.08, 1e-12, "and for its segment");
    money_segment(&r, 1, &p, 1, &money, &lost);
    CHECK(money == v[1].money && fabs(lost - 12 * 0.002) < 1e-12, "and for what it lost");
    CHECK(money_moved(&r), "the run moved");
    r.timing.mfu = 0.3;
    r.hardware.peak_tflops = 1;
    r.hardware.devices = 1;
    r.config.model =
        (struct model_config){.layers = 1, .heads = 1, .width = 8, .context = 8, .vocab = 8};
    money_bill(&b, &r, NULL, 0);
    CHECK(isnan(b.mfu), "its MFU is unknown, whatever was kept: two machines have no one peak");
    for (size_t i = 0; i < 3; i++)
        ((struct result_segment *)r.segments.v)[i].hardware = STR_LIT("big");
    money_bill(&b, &r, NULL, 0);
    CHECK(b.mfu == 0.3, "starts on machines of one kind have one");
    struct segment *again;
    size_t n;
    CHECK_INT(file_write_all(path_join(&A, dir, "segments.jsonl"),
                             STR_LIT("{\"step\":4}\n{\"step\":4}\n"), &E),
              0, "a damaged journal");
    CHECK(segments_read(dir, &again, &n, &A, &E) && strstr(E.msg, "line 2"), "is refused: %s",
          E.msg);
    buf_release(&rows);
}

int main(void)
{
    formulas();
    fronts();
    reaching();
    bills();
    moved();
    file_remove_tree(tap_tmp(), &E);
    arena_release(&A);
    return tap_done();
}

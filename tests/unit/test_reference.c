/* The reference series' tables, entered as results (pipelines/reference/series.jsonl): every derived
 * figure that our formulas can recompute agrees to its last printed digit, or is listed by name in
 * series.disagreements.jsonl.
 * A figure computed there from rounded inputs agrees when some inputs that round to the printed ones
 * give it. The list is exact: an entry that agrees after all fails as well.
 */
#include "tests/tap.h"

#include "base/mem.h"
#include "pipelines/entered.h"
#include "pipelines/money.h"
#include "pipelines/sweep_fit.h"
#include "scoring/stats.h"
#include "trainer/gpt2.h"
#include "trainer/schedule.h"

static struct arena A;
static struct err E;
static struct result *V;
static size_t N;

static struct disagreement *listed;
static size_t nlisted;
static int *seen;

static int list_find(const char *name)
{
    for (size_t i = 0; i < nlisted; i++)
        if (str_eqz(listed[i].figure, name))
            return (int)i;
    return -1;
}

/* The printed text against every value from lo to hi. */
static void printed_range(const char *name, const char *text, double lo, double hi)
{
    const char *point = strchr(text, '.');
    double step = pow(10, point ? -(double)strlen(point + 1) : 0), want = strtod(text, NULL);
    bool agrees = hi >= want - 0.5000001 * step && lo <= want + 0.5000001 * step;
    int at = list_find(name);
    if (at >= 0)
        seen[at]++;
    if (at >= 0)
        CHECK(
            !agrees && str_eqz(listed[at].there, text) &&
                str_eqz(listed[at].here, isnan(lo) ? "" : arena_printf(&A, "%.7g", (lo + hi) / 2)),
            "%s: %s there, %.7g here: listed (%.*s)", name, text, (lo + hi) / 2,
            STR_ARG(listed[at].why));
    else
        CHECK(agrees, "%s: %s there, %.7g here", name, text, (lo + hi) / 2);
}

static void printed(const char *name, const char *text, double got)
{
    printed_range(name, text, got, got);
}

static const struct result *run_of(const char *name)
{
    for (size_t i = 0; i < N; i++)
        if (str_eqz(V[i].run, arena_printf(&A, "series-%s", name)))
            return &V[i];
    CHECK(false, "series-%s is there", name);
    return &V[0];
}

static double value(const char *run, const char *metric)
{
    return money_quality(run_of(run), metric);
}

static const char *of(const char *run, const char *what)
{
    return arena_printf(&A, "%s: %s", run, what);
}

/* Tables of the machines (reference, section 2). */
static void machines(void)
{
    static const struct {
        const char *run, *step_tokens, *steps, *rate, *train, *val, *ex, *ex_s, *billed, *ex_rate,
            *gtoken, *mfu;
        double up_lo, up_hi; /* seconds that the machine was up, as printed */
    } t[] = {
        {"8xa100m40", "106496", "30614", "234480", "39.86", "4.30", "35.56", "12404", "47.35",
         "262.8", "10.91", "10", 16470, 16530},
        {"8xh100m80", "221184", "14740", "490249", "44.19", "6.06", "38.13", "5738", "51.47",
         "568.2", "11.70", "7", 7710, 7770},
        {"8xa100m80", "229376", "14214", "282707", "45.87", "6.30", "39.57", "9948", "48.76",
         "327.7", "12.14", "13", 12270, 12330},
        {"8xb200m160", "524288", "6219", "778107", "46.46", "7.32", "39.14", "3530", "60.25",
         "923.6", "12.01", "5", 5400, 5460},
    };
    int64_t target;
    CHECK_INT(schedule_tokens(STR_LIT("20n"), 163009536, &target, &E), 0, "20 tokens a parameter");
    CHECK_INT(target, 3260190720, "are 3,260,190,720");
    double total = 0;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        const char *n = t[i].run;
        const struct result *r = run_of(n);
        struct bill b;
        money_bill(&b, r, NULL, 0);
        int64_t batch = r->config.train.batch;
        double s = r->timing.train_seconds, tokens = (double)r->tokens,
               price = r->hardware.price_hour;
        double val = r->timing.val_seconds;
        printed(of(n, "tokens a step"), t[i].step_tokens, (double)(batch * 1024));
        printed(of(n, "steps"), t[i].steps, (double)schedule_steps(target, batch, 1024));
        printed_range(of(n, "tok/s with validation"), t[i].rate, money_rate(tokens, s + 0.5),
                      money_rate(tokens, s - 0.5));
        printed_range(of(n, "tok/s with validation, of the target"), t[i].rate,
                      money_rate((double)target, s + 0.5), money_rate((double)target, s - 0.5));
        printed(of(n, "train $"), t[i].train, b.train);
        printed(of(n, "val $"), t[i].val, money_cost(val, price));
        printed(of(n, "$ ex val"), t[i].ex, b.without_val);
        printed(of(n, "s ex val"), t[i].ex_s, money_without(s, 1, val));
        if (i < 3)
            printed_range(of(n, "billed"), t[i].billed, money_cost(t[i].up_lo, price),
                          money_cost(t[i].up_hi, price));
        else /* "1h30m+" */
            CHECK(r->cost_billed >= money_cost(5400, price), "%s: billed for at least 1h30m", n);
        printed(of(n, "thousand tok/s ex val"), t[i].ex_rate, b.rate / 1e3);
        printed(of(n, "$ per 1e9 tokens ex val"), t[i].gtoken, b.gtoken);
        double six = 6.0 * (double)r->parameters;
        printed(of(n, "MFU of 6 N"), t[i].mfu,
                100 * money_mfu(b.rate, six, 8, r->hardware.peak_tflops));
        printed(of(n, "MFU, ours"), t[i].mfu, 100 * b.mfu);
        double part = val / s;
        CHECK(part > 0.105 && part < 0.165, "%s: validation took %.1f%% of the time, 11-16%% there",
              n, 100 * part);
        total += r->cost_billed;
    }
    printed("total spent on the cloud", "215.16", total);
    struct bill b;
    money_bill(&b, run_of("fp32"), NULL, 0);
    printed("fp32: billed", "135", b.train);
    const double micro[] = {6, 13, 27, 64}, gib[] = {24, 40, 80, 160};
    double mx = 0, my = 0, sxy = 0, sxx = 0;
    for (int i = 0; i < 4; i++) {
        mx += micro[i] / 4;
        my += gib[i] / 4;
    }
    for (int i = 0; i < 4; i++) {
        sxy += (micro[i] - mx) * (gib[i] - my);
        sxx += (micro[i] - mx) * (micro[i] - mx);
    }
    printed("memory rule: GiB a sequence", "2.35", sxy / sxx);
    printed("memory rule: GiB fixed", "11.5", my - sxy / sxx * mx);
}

/* Rates of the other runs (sections 2 and 7). */
static void rates(void)
{
    static const struct {
        const char *run, *text, *unit;
        double by;
    } t[] = {{"baseline", "265.6", "thousand tok/s", 1e3},
             {"stack-1", "285.0", "thousand tok/s", 1e3},
             {"3090-baseline", "20979", "tok/s", 1},
             {"3090-stack-1", "22285", "tok/s", 1},
             {"jax-2-epochs", "23092", "tok/s", 1}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        const struct result *r = run_of(t[i].run);
        double tokens = (double)r->tokens, s = r->timing.train_seconds;
        printed_range(of(t[i].run, t[i].unit), t[i].text, money_rate(tokens, s + 0.5) / t[i].by,
                      money_rate(tokens, s - 0.5) / t[i].by);
    }
    double faster =
        run_of("baseline")->timing.train_seconds / run_of("stack-1")->timing.train_seconds;
    printed("no dropout: faster by %", "7", 100 * (faster - 1));
    printed("8xa100m80 against llm.c: million tok/s", "0.283",
            money_rate(3260190720, run_of("8xa100m80")->timing.train_seconds) / 1e6);
    printed("llm.c: million tok/s", "1.85", money_rate(10e9, 90 * 60) / 1e6);
}

static void model(void)
{
    const struct model_config *m = &run_of("baseline")->config.model;
    CHECK_INT(params_count(m), 163009536, "parameters of the series' model");
    CHECK_INT(params_count(&run_of("openai-small")->config.model), 124439808, "of GPT-2 small");
    CHECK_INT(params_count(&run_of("openai-medium")->config.model), 354823168, "of GPT-2 medium");
    CHECK_INT(params_count(&run_of("tied")->config.model), run_of("tied")->parameters,
              "of the tied one");
    CHECK_INT(3200 * 6 * 1024, 19660800, "tokens of the test slice");
    static const struct {
        int64_t micro;
        const char *text;
    } val[] = {{13, "3.99"}, {27, "8.29"}, {28, "8.60"}, {64, "19.66"}};
    for (int i = 0; i < 4; i++)
        printed(arena_printf(&A, "validation tokens at micro-batch %d", (int)val[i].micro),
                val[i].text, 300.0 * (double)val[i].micro * 1024 / 1e6);
}

/* Batch size against loss: "an optimum at ~97 sequences". */
static void batch_optimum(void)
{
    static const char *const runs[] = {"3090-fineweb", "8xa100m40", "8xh100m80", "8xa100m80",
                                       "8xb200m160"};
    const double three[] = {3.944, 3.674, 3.725, 3.730, 3.771};
    double x[5], six[5];
    struct fit f;
    for (int i = 0; i < 5; i++) {
        x[i] = (double)run_of(runs[i])->config.train.batch;
        six[i] = value(runs[i], "nll_token");
        CHECK(fabs(six[i] - three[i]) < 0.00051, "%s: %.6f is the %.3f of the first table", runs[i],
              six[i], three[i]);
    }
    fit_log_parabola(&f, x, three, 5, false, 0.9);
    printed("batch size of the least loss, three digits", "97", f.best);
    CHECK(!f.why && f.lo > 60 && f.hi < 230, "with a 90%% interval of %.0f-%.0f", f.lo, f.hi);
    fit_log_parabola(&f, x, six, 5, false, 0.9);
    printed("batch size of the least loss, six digits", "97", f.best);
}

static double root_of_sum(const double *v, size_t n, double divide)
{
    double mean = 0, ss = 0;
    for (size_t i = 0; i < n; i++)
        mean += v[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        ss += (v[i] - mean) * (v[i] - mean);
    return sqrt(ss / divide);
}

static void seeds(void)
{
    static const char *const runs[] = {"baseline",    "seeds-22-22", "seeds-67-67", "seeds-42-23",
                                       "seeds-42-67", "seeds-23-23", "seeds-67-23"};
    double v[7], mean = 0, least = INFINITY, most = 0, df;
    for (int i = 0; i < 7; i++) {
        v[i] = value(runs[i], "nll_token");
        mean += v[i] / 7;
        least = fmin(least, v[i]);
        most = fmax(most, v[i]);
    }
    const double *group = v;
    printed("seven seeds: mean", "3.6741", mean);
    printed("seven seeds: sample SD", "0.0123", stats_pooled_sd(&group, &(size_t){7}, 1, &df));
    CHECK_INT((long long)df, 6, "with 6 degrees of freedom");
    printed("seven seeds: range", "0.038", most - least);
    CHECK(v[0] == most, "seed 42 is the unluckiest");
    const double both[] = {v[0], v[1], v[2]}, train[] = {v[0], v[3], v[4]},
                 weights[] = {v[3], v[5], v[6]};
    double sd = root_of_sum(both, 3, 3); /* of losses with six digits */
    printed_range("SD of three seeds, both", "0.0154919", sd - 4e-7, sd + 4e-7);
    printed("SD of three train seeds", "0.008672", root_of_sum(train, 3, 3));
    printed("SD of three train seeds, not divided", "0.008672", root_of_sum(train, 3, 1));
    printed("SD of three train seeds, population", "0.005007", root_of_sum(train, 3, 3));
    printed("SD of three train seeds, sample", "0.006132", root_of_sum(train, 3, 2));
    printed("SD of three weight seeds", "0.012062", root_of_sum(weights, 3, 3));
    printed("SD of three weight seeds, not divided", "0.012062", root_of_sum(weights, 3, 1));
    printed("SD of three weight seeds, population", "0.006964", root_of_sum(weights, 3, 3));
    printed("SD of three weight seeds, sample", "0.008529", root_of_sum(weights, 3, 2));
}

static void interventions(void)
{
    static const struct {
        const char *run, *gain;
        double half; /* of the last digit of the printed loss */
    } t[] = {{"tied", "-0.182", 5e-4},    {"decay-cerebras", "-0.175", 5e-4},
             {"fp32", "0.013", 5e-4},     {"clip", "0.013", 5e-4},
             {"qkv-bias", "0.022", 5e-4}, {"decay-0.01", "0.049", 5e-4},
             {"no-dropout", "0.050", 0},  {"lr", "0.090", 5e-4},
             {"stack-1", "0.114", 0},     {"stack-2", "0.087", 0},
             {"stack-3", "0.101", 0},     {"3090-baseline", "0.008", 0},
             {"3090-stack-1", "0.153", 0}};
    double base = value("baseline", "nll_token"), sum = 0;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        double gain = base - value(t[i].run, "nll_token");
        printed_range(of(t[i].run, "gain"), t[i].gain, gain - t[i].half, gain + t[i].half);
    }
    static const char *const parts[] = {"clip", "decay-0.01", "no-dropout", "lr"};
    for (int i = 0; i < 4; i++)
        sum += base - value(parts[i], "nll_token");
    printed_range("sum of the four stacked gains", "0.224", sum - 1.5e-3, sum + 1.5e-3);
    sum += base - value("qkv-bias", "nll_token");
    printed("sum of the four stacked gains and the q/k/v bias", "0.224", sum);
    printed("stack 1: cloud against 3090", "0.040",
            value("stack-1", "nll_token") - value("3090-stack-1", "nll_token"));
    printed("batch 6 to 96", "0.252", value("3090-fineweb", "nll_token") - base);
    const struct metric *m = run_of("decay-cerebras")->metrics.v;
    printed("weight decay 0.33724: a test loss", "3.867",
            str_find(m->note, STR_LIT("training loss")) >= 0 ? NAN : m->value);
}

/* The same models, judged alone and together. */
static void judged(void)
{
    static const char *const rows[] = {
        "openai-medium", "jax-out-bias", "jax-no-bias", "jax-dropout",
        "openai-small",  "3090-stack-1", "stack-1",     "8xa100m40",
        "3090-baseline", "baseline",     "8xh100m80",   "8xa100m80",
        "8xb200m160",    "3090-fineweb", "3090-edu-2x", "3090-edu"};
    static const int rank[] = {1, 5, 3, 8, 2, 11, 15, 4, 12, 9, 10, 14, 13, 16, 7, 6};
    double loss[16], new[16];
    for (int i = 0; i < 16; i++) {
        loss[i] = -value(rows[i], "nll_token");
        new[i] = value(rows[i], "judge_joint");
    }
    for (int i = 0; i < 16; i++) {
        int better = 1;
        for (int k = 0; k < 16; k++)
            better += new[k] > new[i];
        CHECK_INT(better, rank[i], "%s: rank after the bugfix", rows[i]);
    }
    printed("Spearman, all 16", "0.53", stats_spearman(loss, new, 16));
    double a[16], b[16];
    int n = 0, m = 0;
    for (int i = 0; i < 16; i++)
        if (i != 0 && i != 4) {
            a[n] = loss[i];
            b[n++] = new[i];
            m += i < 14;
        }
    printed("Spearman, his own 14", "0.34", stats_spearman(a, b, (size_t)n));
    printed("Spearman, his own without Edu", "0.69", stats_spearman(a, b, (size_t)m));
    printed("final table: 8xA100 80G test loss", "3.734", value("8xa100m80", "nll_token"));
    printed("final table: GPT-2 medium IFT", "38.52", value("openai-medium", "judge_single"));
    printed("final table: Edu 2x IFT", "14.44", value("3090-edu-2x", "judge_single"));
}

int main(void)
{
    const char *series = "pipelines/reference/series.jsonl";
    if (entered_load(series, &V, &N, &A, &E) ||
        entered_disagreements(series, &listed, &nlisted, &A, &E))
        return CHECK(false, "the tables are read: %s", E.msg), tap_done();
    seen = arena_array(&A, nlisted + 1, sizeof *seen);
    CHECK_INT(N, 34, "runs of the series");
    for (size_t i = 0; i < N; i++)
        if (!V[i].source.n)
            CHECK(false, "%.*s has a source", STR_ARG(V[i].run));
    machines();
    rates();
    model();
    batch_optimum();
    seeds();
    interventions();
    judged();
    for (size_t i = 0; i < nlisted; i++)
        CHECK_INT(seen[i], 1, "listed once: %.*s", STR_ARG(listed[i].figure));
    CHECK_INT((long long)nlisted, 15, "disagreements");
    arena_release(&A);
    return tap_done();
}

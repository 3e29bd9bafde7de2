/* assay cost: hardware and money of results. */
#include <math.h>
#include <stdio.h>

#include "base/command.h"
#include "base/map.h"
#include "pipelines/ledger.h"
#include "pipelines/money.h"

enum { FORMAT_TABLE, FORMAT_MD, FORMAT_CSV, FORMAT_JSON };
static const char *const formats[] = {"table", "md", "csv", "json", NULL};

struct opt {
    struct strs results, price;
    struct str metric;
    double loss;
    int64_t smooth;
    int format;
};
#define AT(m) offsetof(struct opt, m)
static const struct field fields[] = {
    {"results", FIELD_STRS, AT(results), NULL, .flags = FIELD_POSITIONAL,
     .help = "result files, run folders, or folders of runs"},
    {"price", FIELD_STRS, AT(price), "",
     .help = "other price of a whole machine an hour: 12.5, or HARDWARE=12.5"},
    {"loss", FIELD_F64, AT(loss), "", 0, 1e6, .help = "training loss whose time and cost are told"},
    {"smooth", FIELD_I64, AT(smooth), "5", 1, 1000,
     .help = "points of the curve that are averaged for --loss"},
    {"metric", FIELD_STR, AT(metric), "",
     .help = "quality that stands beside the cost; default: nll_token, else the first primary one"},
    {"format", FIELD_ENUM, AT(format), "table", .choices = formats, .help = "how to print"},
    {0},
};
#undef AT
static const struct schema options = {"cost", 1, sizeof(struct opt), fields};

static int take_price(struct str text, struct price *p, struct err *e)
{
    struct str rest = text, name = {0};
    if (str_find(text, STR_LIT("=")) >= 0)
        name = str_cut(&rest, '=');
    *p = (struct price){.hardware = name};
    if (str_f64(rest, &p->price_hour) || p->price_hour < 0)
        return err_code(e, EXIT_USAGE, "--price %.*s: want 12.5 or HARDWARE=12.5", STR_ARG(text));
    return 0;
}

/* Appends a name to "a, b" once. */
static void list_name(struct buf *b, struct map *seen, struct str name)
{
    int added = 0;
    if (name.n)
        map_add(seen, name, 0, &added);
    if (added)
        buf_printf(b, "%s%.*s", b->n ? ", " : "", STR_ARG(name));
}

/* A price for a machine that nobody used changes nothing, which should not pass unseen. */
static int check_prices(const struct ledger *l, const struct price *p, size_t n, struct err *e)
{
    struct map seen = {0};
    struct buf names = {0};
    int rc = 0;
    for (size_t i = 0; i < l->n; i++) {
        const struct result_segment *s = l->v[i].segments.v;
        list_name(&names, &seen, l->v[i].hardware.name);
        for (size_t k = 0; k < l->v[i].segments.n; k++)
            list_name(&names, &seen, s[k].hardware);
    }
    for (size_t i = 0; i < n && rc == 0; i++)
        if (p[i].hardware.n && map_find(&seen, p[i].hardware) < 0)
            rc = err_code(e, EXIT_USAGE, "--price %.*s: none of these runs used it; they used: %s",
                          STR_ARG(p[i].hardware), names.n ? names.p : "machines without a name");
    map_release(&seen);
    buf_release(&names);
    return rc;
}

/* The metric that was asked for, which must be there, or the one that is taken. */
static int take_metric(const struct ledger *l, struct str *metric, struct err *e)
{
    struct map seen = {0};
    struct buf names = {0};
    struct str first = {0};
    int rc = 0;
    for (size_t i = 0; i < l->n; i++) {
        const struct metric *m = l->v[i].metrics.v;
        for (size_t k = 0; k < l->v[i].metrics.n; k++) {
            list_name(&names, &seen, m[k].name);
            first = !first.n && m[k].primary ? m[k].name : first;
        }
    }
    if (!metric->n)
        *metric =
            map_find(&seen, STR_LIT("nll_token")) >= 0 || !first.n ? STR_LIT("nll_token") : first;
    else if (map_find(&seen, *metric) < 0)
        rc = err_code(e, EXIT_USAGE, "--metric %.*s: none of these runs has it; there are: %s",
                      STR_ARG(*metric), names.n ? names.p : "none at all");
    map_release(&seen);
    buf_release(&names);
    return rc;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct opt *o = opt;
    struct ledger l = {0};
    struct buf out = {0};
    struct price *p = arena_array(a, o->price.n + 1, sizeof *p);
    for (size_t i = 0; i < o->price.n; i++)
        if (take_price(o->price.v[i], &p[i], e))
            return -1;
    if (o->results.n == 0)
        return err_code(e, EXIT_USAGE, "which results? files, run folders, folders of runs");
    if (ledger_load(&l, o->results, e) != 0)
        return -1;
    if (check_prices(&l, p, o->price.n, e) != 0 || take_metric(&l, &o->metric, e) != 0) {
        ledger_release(&l);
        return -1;
    }
    struct money_options m = {.prices = p,
                              .nprices = o->price.n,
                              .loss = o->loss,
                              .metric = str_dup(a, o->metric),
                              .smooth = o->smooth};
    if (o->format == FORMAT_JSON) {
        struct json *j = money_json(l.v, l.n, &m);
        json_write_pretty(j, &out);
        json_free(j);
    } else if (o->format == FORMAT_CSV) {
        money_csv(l.v, l.n, &m, &out);
    } else {
        money_print(l.v, l.n, &m, (enum table_format)o->format, &out);
    }
    fwrite(out.p, 1, out.n, stdout);
    buf_release(&out);
    ledger_release(&l);
    return EXIT_DONE;
}

const struct command cmd_cost = {
    .room = "pipelines",
    .name = "cost",
    .summary = "speed, money and what they bought, across machines",
    .details = "Tokens/s (median and spread), MFU, stall, energy; cost of training, without "
               "validation, with evaluation and\nbilled, per segment where a run moved; time and "
               "cost to a loss; the front of cost against quality; scaling.",
    .options = &options,
    .run = run,
};

/* assay cost: hardware and money of results. */
#include <math.h>
#include <stdio.h>

#include "base/command.h"
#include "pipelines/ledger.h"
#include "pipelines/money.h"

static const char *const formats[] = {"table", "md", "csv", NULL};

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
    {"metric", FIELD_STR, AT(metric), "nll_token", .help = "quality that stands beside the cost"},
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
        return err_code(e, EXIT_USAGE, "cost: which results? files, run folders, folders of runs");
    if (ledger_load(&l, o->results, e) != 0)
        return err_wrap(e, "cost");
    struct money_options m = {.prices = p,
                              .nprices = o->price.n,
                              .loss = o->loss,
                              .metric = str_dup(a, o->metric),
                              .smooth = o->smooth};
    money_print(l.v, l.n, &m, (enum table_format)o->format, &out);
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

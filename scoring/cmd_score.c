/* cmd_score: `assay score`, a pure scorer over a file of responses, as a stage. */
#include <math.h>
#include <stdlib.h>

#include "base/command.h"
#include "base/log.h"
#include "formats/manifest.h"
#include "formats/record.h"
#include "scoring/answers.h"

struct options {
    struct str scorer, items, responses, out;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"scorer", FIELD_STR, AT(scorer), NULL,
     .help = "one of those above, or the metric that it gives"},
    {"items", FIELD_STR, AT(items), NULL, .help = "what was asked: .msgpack, .json or .jsonl",
     .flags = FIELD_VOLATILE},
    {"responses", FIELD_STR, AT(responses), NULL,
     .help = "what was answered: .msgpack, or .json of items with model_response",
     .flags = FIELD_VOLATILE},
    {"out", FIELD_STR, AT(out), NULL, .help = "scores to write: .msgpack, one record an item",
     .flags = FIELD_VOLATILE},
    {0},
};
#undef AT
static const struct schema options = {"score", 1, sizeof(struct options), fields};

static int save(const char *path, const struct score *v, size_t n, struct err *e)
{
    struct records *r = records_open(path, &score_schema, RECORD_WRITE, e);
    if (!r)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (records_append(r, &v[i], e)) {
            records_abort(r);
            return -1;
        }
    return records_close(r, e);
}

static void warn_missing(const struct score_counts *n, int64_t missing)
{
    static const char *const words[] = {
        [OUTCOME_PARSE_FAILED] = "invalid", [OUTCOME_REFUSED] = "refused",
        [OUTCOME_TRUNCATED] = "truncated",  [OUTCOME_TRANSPORT_FAILED] = "failed",
        [OUTCOME_NOT_RUN] = "not run",
    };
    struct buf b = {0};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        int64_t some = n->outcome[k] - (k == OUTCOME_NOT_RUN ? n->unchecked : 0);
        if (words[k] && some)
            buf_printf(&b, "%s%lld %s", b.n ? ", " : "", (long long)some, words[k]);
    }
    if (n->unchecked)
        buf_printf(&b, "%s%lld that can't be asked or checked, see the details of the scores",
                   b.n ? ", " : "", (long long)n->unchecked);
    log_warn("%lld item%s no score (%s)", (long long)missing, missing == 1 ? " has" : "s have",
             b.n ? b.p : "");
    buf_release(&b);
}

static void facts(struct stage *st, const struct scorer *s, const struct score_counts *n,
                  size_t items, struct str note)
{
    int64_t scored = n->outcome[OUTCOME_SCORED];
    struct json *id = json_obj();
    double mean = scored ? n->sum / n->weight : NAN;
    json_put(id, "scorer", json_of_z(s->name));
    json_put(id, "scorer_version", json_of_int(s->version));
    stage_fact(st, "identity", id);
    stage_fact(st, "metric", json_of_z(s->metric));
    stage_fact(st, "value", json_of_num(mean));
    stage_fact(st, "items", json_of_int((int64_t)items));
    for (int k = 0; outcome_names[k]; k++)
        stage_fact(st, outcome_names[k], json_of_int(n->outcome[k]));
    if (n->unchecked)
        stage_fact(st, "unchecked", json_of_int(n->unchecked));
    stage_fact(st, "cut", json_of_int(n->cut));
    if (scored < (int64_t)items) { /* where the mean would be if all others were 0, or 1 */
        double all = n->weight + n->missing_weight;
        stage_fact(st, "lowest", json_of_num(n->sum / all));
        stage_fact(st, "highest", json_of_num((n->sum + n->missing_weight) / all));
    }
    if (scored)
        log_info("%s %.4f over %lld of %zu items%s%.*s", s->metric, mean, (long long)scored, items,
                 note.n ? "; " : "", STR_ARG(note));
    else
        log_info("%s is not estimable: none of %zu items has a score", s->metric, items);
    if (scored < (int64_t)items)
        warn_missing(n, (int64_t)items - scored);
}

static int work(struct stage *st, const struct scorer *s, const struct options *o, const char *out,
                struct arena *a, struct err *e)
{
    struct items items = {0};
    struct responses responses = {0};
    struct score_counts n;
    struct score *v = NULL;
    int rc = -1;
    const char *responses_path = str_dup(a, o->responses);
    if (items_load(&items, str_dup(a, o->items), e) ||
        responses_load(&responses, responses_path, e))
        goto out;
    v = mem_array(items.n, sizeof *v);
    if (score_all(s, &items, &responses, v, &n, a, e)) {
        err_wrap(e, "%s", responses_path);
        goto out;
    }
    struct str note = {0};
    if (s->report)
        stage_fact(st, "report", s->report(s, &items, &responses, &note, a));
    if (note.n)
        stage_fact(st, "note", json_of_str(note));
    if (record_spare(out, e) || stage_start(st, e) || save(out, v, items.n, e) ||
        stage_output(st, out, e))
        goto out;
    facts(st, s, &n, items.n, note);
    rc = stage_end(st, e);
out:
    free(v);
    items_release(&items);
    responses_release(&responses);
    return rc;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct options *o = opt;
    const char *out = str_dup(a, o->out);
    const struct scorer *s = scorer_find(o->scorer, e);
    struct stage st;
    int rc = -1;
    if (!s)
        return -1;
    stage_begin(&st, "score", 1, out, &options, o);
    stage_setting(&st, "scorer_version", arena_printf(a, "%d", s->version));
    if (stage_input_whole(&st, str_dup(a, o->items), e) ||
        stage_input_whole(&st, str_dup(a, o->responses), e))
        goto out;
    rc = stage_fresh(&st) ? 0 : work(&st, s, o, out, a, e);
out:
    stage_release(&st);
    return rc;
}

const struct command cmd_score = {
    .room = "scoring",
    .name = "score",
    .summary = "score answers with a pure scorer: exact, overlap, ifeval, choice...",
    .details =
        "exact: 1 if the answer equals the reference but for case, white space and punctuation at\n"
        "its ends, or if it names the right one of the item's choices and no other; else 0.\n"
        "overlap: F1 of the words that answer and reference share, as SQuAD counts them.\n"
        "ifeval, ifeval_loose: 1 if every checkable instruction of the item is followed;\n"
        "ifeval_inst, ifeval_inst_loose: share of the checkable instructions. Items are IFEval's "
        "rows as "
        "they\n"
        "are, or have \"constraints\"; ifeval's manifest also reports tiers, types and baselines.\n"
        "Of log-probabilities of choices (assay eval --task choice), each with the metric that it "
        "gives:\n"
        "choice: acc; choice_char: acc_norm_char; choice_byte: acc_norm_byte; choice_token:\n"
        "acc_norm_token; greedy: acc_greedy; gold_nats: nats_answer. docs/metrics.md defines "
        "them.\n"
        "Every item gets one record, in the order of the items. An item without a response has\n"
        "outcome not_run and no value; a response to an unknown item is an error.",
    .options = &options,
    .run = run,
};

/* Log-probabilities of continuations against hand-set logits, by the ids' places: a span that begins
 * or ends one off, a doubled EOT, a context cut at the wrong end and a row that gets its neighbour's
 * logits all keep plausible numbers, and are wrong here.
 *
 * The model is that of tests/toy.h with an id a byte (and EOT): token v is the unit vector v, position t
 * the unit vector V + t, attention and MLP are zero; so the logit of u behind v at position t is
 * (A[u][v] + A[u][V + t] - 2 mean(A[u])) / sd.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "eval/logprob.h"
#include "tests/tap.h"

enum { V = 257, T = 40, C = V + T, EOT = 256, JOBS = 24, CHOICES = 3 };

static float head[V][C];
static double mean[V];
static struct backend cpu;
static struct vocab vocab;

static float *at(float *flat, const struct params *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->v[i].name, name) == 0)
            return flat + p->v[i].at;
    return NULL;
}

static struct gpt2 *make(struct err *e)
{
    struct model_config c = {.layers = 1,
                             .heads = 1,
                             .width = C,
                             .context = T,
                             .vocab = V,
                             .qkv_bias = true,
                             .norm_eps = 1e-5};
    struct gpt2_use use = {.batch = 8, .length = T};
    struct rng r = rng_make(5, "spans", 0);
    struct gpt2 *m = gpt2_new(&cpu, &c, &use, e);
    if (!m)
        return NULL;
    const struct params *p = gpt2_params(m);
    float *flat = mem_array((size_t)p->count, sizeof *flat);
    for (int u = 0; u < V; u++)
        for (int i = 0; i < C; i++) {
            head[u][i] = (float)(0.1 * rng_normal(&r));
            mean[u] += head[u][i] / (double)C;
        }
    for (int v = 0; v < V; v++)
        at(flat, p, "wte.weight")[v * C + v] = 1;
    for (int t = 0; t < T; t++)
        at(flat, p, "wpe.weight")[t * C + V + t] = 1;
    for (int i = 0; i < C; i++)
        at(flat, p, "ln_f.weight")[i] = 1;
    memcpy(at(flat, p, "lm_head.weight"), head, sizeof head);
    int rc = gpt2_put(m, 'w', flat, e);
    free(flat);
    if (!rc)
        return m;
    gpt2_free(m);
    return NULL;
}

static double logit(int u, int v, int t)
{
    double var = 2.0 / C - 4.0 / C / C;
    return (head[u][v] + head[u][V + t] - 2 * mean[u]) / sqrt(var + 1e-5);
}

/* log p(u | v at t); *best: no id is likelier. */
static double logp(int u, int v, int t, bool *best)
{
    double sum = 0;
    for (int w = 0; w < V; w++) {
        sum += exp(logit(w, v, t) - logit(u, v, t));
        *best = *best && logit(w, v, t) <= logit(u, v, t);
    }
    return -log(sum);
}

/* By the rule of eval/logprob.h, target by target: context (empty: EOT), then choice. */
static struct logprob_value want(struct str context, struct str choice)
{
    int seq[400], n = 0;
    struct logprob_value v = {.greedy = true};
    for (size_t i = 0; i < context.n; i++)
        seq[n++] = (unsigned char)context.p[i];
    if (!n)
        seq[n++] = EOT;
    int from = n;
    for (size_t i = 0; i < choice.n; i++)
        seq[n++] = (unsigned char)choice.p[i];
    int lost = n - 1 > T ? n - 1 - T : 0; /* of the head */
    for (int k = from; k < n; k++) {
        bool best = true;
        v.sum += logp(seq[k], seq[k - 1], k - 1 - lost, &best);
        v.greedy = v.greedy && best;
        v.tokens++;
    }
    return v;
}

struct job {
    char context[128], choice[CHOICES][64];
    struct str choices[CHOICES];
    struct logprob_value got[CHOICES];
    int64_t cropped;
    bool done;
};

static int done(void *ctx, void *tag, const struct logprob_value *v, size_t n, int64_t cropped,
                struct err *e)
{
    struct job *j = tag;
    (void)e;
    memcpy(j->got, v, n * sizeof *v);
    j->cropped = cropped;
    j->done = true;
    ++*(int *)ctx;
    return 0;
}

/* The likeliest ids behind a context, so that some choices are greedy. */
static void greedy(struct job *j, char *out, int n)
{
    struct str context = str_z(j->context);
    int len = (int)context.n, v = (unsigned char)context.p[len - 1];
    for (int k = 0; k < n; k++) {
        int best = 'a', t = len - 1 + k;
        for (int u = 1; u < 128;
             u++) /* bytes that are text; EOT may be likelier: then it is not greedy */
            best = logit(u, v, t) > logit(best, v, t) ? u : best;
        out[k] = (char)best;
        v = best;
    }
    out[n] = 0;
}

static void make_jobs(struct job *jobs)
{
    static const int contexts[] = {1, 2, 5, 0, 11, 20, 30, 31, 32, 33, 36, 39, 40, 41, 44, 60, 100};
    struct rng r = rng_make(2, "jobs", 0);
    for (int i = 0; i < JOBS; i++) {
        struct job *j = &jobs[i];
        int n = contexts[i % 17];
        for (int k = 0; k < n; k++)
            j->context[k] = (char)('a' + rng_below(&r, 26));
        for (int c = 0; c < CHOICES; c++) {
            int length = 1 + (int)rng_below(&r, 12);
            for (int k = 0; k < length; k++)
                j->choice[c][k] = (char)('a' + rng_below(&r, 26));
        }
        if (n && n < 20)
            greedy(j, j->choice[0], 1);
        for (int c = 0; c < CHOICES; c++)
            j->choices[c] = str_z(j->choice[c]);
    }
}

static bool right(const struct job *j)
{
    int64_t cropped = 0;
    for (int c = 0; c < CHOICES; c++) {
        struct logprob_value w = want(str_z(j->context), j->choices[c]), g = j->got[c];
        int64_t n = (int64_t)(strlen(j->context) + j->choices[c].n) - 1;
        cropped = n - T > cropped ? n - T : cropped;
        if (fabs(w.sum - g.sum) <= 5e-5 && w.tokens == g.tokens && w.greedy == g.greedy)
            continue;
        printf("# \"%s\" + \"%s\": %.9g of %d ids, want %.9g of %d\n", j->context, j->choice[c],
               g.sum, (int)g.tokens, w.sum, (int)w.tokens);
        return false;
    }
    return j->done && j->cropped == cropped;
}

static void test_sums(struct gpt2 *m, struct encoder *x)
{
    static struct job jobs[JOBS], alone[JOBS];
    struct err e = {0};
    const char *why;
    int n = 0, greedy_ones = 0;
    bool same = true;
    make_jobs(jobs);
    memcpy(alone, jobs, sizeof jobs);
    struct logprob *p = logprob_new(m, x, EOT, done, &n);
    for (int i = 0; i < JOBS; i++)
        logprob_add(p, str_z(jobs[i].context), (struct strs){jobs[i].choices, CHOICES}, true,
                    &jobs[i], &why, &e);
    CHECK(!logprob_flush(p, &e) && n == JOBS, "%d jobs of 0 to 100 ids in front, at once %s", JOBS,
          e.msg);
    for (int i = 0; i < JOBS; i++) {
        CHECK(right(&jobs[i]), "job %d, behind %d ids: each choice's own ids, all of them", i,
              (int)strlen(jobs[i].context));
        greedy_ones += jobs[i].got[0].greedy;
    }
    CHECK(greedy_ones > 2, "some are the likeliest (%d), and known to be", greedy_ones);
    for (int i = 0; i < JOBS; i++) { /* packed equals unpacked */
        for (int c = 0; c < CHOICES; c++)
            alone[i].choices[c] = str_z(alone[i].choice[c]);
        logprob_add(p, str_z(alone[i].context), (struct strs){alone[i].choices, CHOICES}, true,
                    &alone[i], &why, &e);
        same = same && !logprob_flush(p, &e) &&
               memcmp(alone[i].got, jobs[i].got, sizeof alone[i].got) == 0;
    }
    CHECK(same, "one by one they have the same bits");
    logprob_free(p);
}

/* Text that begins with the EOT itself. */
static void test_one_eot(struct encoder *x)
{
    struct ids ids = {0};
    struct err e = {0};
    size_t from;
    struct str text = STR_LIT("<|endoftext|>ab");
    CHECK(!logprob_encode(x, (struct str){0}, text, false, EOT, &ids, &from, &e) && ids.n == 3 &&
              from == 1 && ids.v[0] == EOT && ids.v[1] == 'a',
          "an empty context is one EOT, not two where the choice brings its own");
    CHECK(!logprob_encode(x, text, STR_LIT("c"), true, EOT, &ids, &from, &e) && ids.n == 4 &&
              from == 3 && ids.v[0] == EOT && ids.v[1] == 'a',
          "nor does a context that begins with it get another");
    ids_release(&ids);
}

int main(void)
{
    struct err e = {0};
    struct encode_options o = {.special = SPECIAL_ALLOW, .bad_utf8 = BAD_UTF8_REPLACE};
    const struct split_pattern *pattern = split_find(STR_LIT("gpt2"), &e);
    struct encoder *x = NULL;
    struct gpt2 *m = NULL;
    if (!pattern || vocab_trained(&vocab, NULL, 0, pattern, STR_LIT(VOCAB_EOT), &e) ||
        !(x = encoder_new(&vocab, o, &e)) || backend_open(&cpu, "cpu", 0, 2, &e) ||
        !(m = make(&e))) {
        printf("Bail out! %s\n", e.msg);
        return 1;
    }
    test_sums(m, x);
    test_one_eot(x);
    gpt2_free(m);
    backend_close(&cpu);
    encoder_free(x);
    vocab_release(&vocab);
    return tap_done();
}

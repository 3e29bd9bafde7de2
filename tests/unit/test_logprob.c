/* test_logprob: where a continuation begins among the ids, by both rules; and jobs of a model whose
 * numbers transformers gave (tests/golden/lm_eval.jsonl is compared by tests/cli/choice.t).
 */
#include <math.h>

#include "eval/local.h"
#include "eval/logprob.h"
#include "formats/shard.h"
#include "tests/tap.h"

static struct vocab vocab;
static struct encoder *encoder;

/* "id id | id": ids with a bar where the continuation begins. */
static const char *split(const char *context, const char *continuation, bool apart)
{
    static char out[8][256];
    static int at;
    char *s = out[at++ & 7], *p = s;
    struct ids ids = {0};
    struct err e = {0};
    size_t from;
    if (logprob_encode(encoder, str_z(context), str_z(continuation), apart, vocab.eot, &ids, &from,
                       &e))
        return "error";
    for (size_t i = 0; i < ids.n; i++) {
        struct str b;
        vocab_bytes(&vocab, ids.v[i], &b);
        p += snprintf(p, (size_t)(s + 256 - p), "%s%.*s",
                      i == from ? "|"
                      : i       ? "."
                                : "",
                      STR_ARG(b));
    }
    ids_release(&ids);
    return s;
}

static void test_encode(void)
{
    CHECK_STR(split("he", " other", false), "he| other", "a blank in front of the choice");
    CHECK_STR(split("he ", "other", false), "he| other",
              "one behind the context goes to the choice");
    CHECK_STR(split("he\n", "other", false), "he|\n.other", "so does a line feed");
    CHECK_STR(split("he\xC2\xA0", "other", false), split("he", "\xC2\xA0other", false),
              "and a no-break space");
    CHECK_STR(split("he ", "other", true), "he. |other", "not by the other rule");
    CHECK_STR(split("he", " other", true), "he| other", "which encodes each alone");
    CHECK_STR(split("h", "e", false), "he",
              "a joint that is one token leaves no choice: refused later");
    CHECK_STR(split("", "he", false), "<|endoftext|>|he", "an empty context is EOT");
    CHECK_STR(split("", "", false), "<|endoftext|>", "alone");
}

struct got {
    double sum;
    int64_t tokens, cropped;
    int jobs;
};

static int done(void *ctx, void *tag, const struct logprob_value *v, size_t n, int64_t cropped,
                struct err *e)
{
    struct got *g = ctx;
    (void)tag, (void)n, (void)e;
    *g = (struct got){v[0].sum, v[0].tokens, cropped, g->jobs + 1};
    return 0;
}

static int64_t one(int64_t context)
{
    (void)context;
    return 8;
}

static void test_jobs(void)
{
    struct local_model l;
    struct err e = {0};
    struct got g = {0};
    const char *why;
    struct local_options o = {.backend = "cpu", .threads = 1, .rows = one};
    const char *dir = tap_data("model/tiny-random-gpt2");
    if (!dir) {
        SKIP("model/tiny-random-gpt2");
        return;
    }
    CHECK_INT(local_open(&l, dir, &o, &e), 0, "a model opens %s", e.msg);
    struct logprob *p = logprob_new(l.m, encoder, vocab.eot, done, &g);
    struct str some[] = {STR_LIT(" other")}, none[] = {STR_LIT("")};
    struct strs choices = {some, 1}, empty = {none, 1};
    CHECK_INT(logprob_add(p, STR_LIT("he"), choices, false, NULL, &why, &e), 0, "a job waits");
    CHECK_INT(g.jobs, 0, "for others of its length");
    CHECK(logprob_flush(p, &e) == 0 && g.jobs == 1 && g.tokens == 1 && g.cropped == 0,
          "a flush runs it");
    /* By hand: the log-softmax behind one id. */
    int32_t the = vocab_find(&vocab, STR_LIT("he")), other = vocab_find(&vocab, STR_LIT(" other"));
    float *logits = mem_array((size_t)l.config.vocab, sizeof *logits);
    gpt2_logits(l.m, &the, 1, 1, logits, &e);
    double sum = 0;
    for (int64_t i = 0; i < l.config.vocab; i++)
        sum += exp((double)logits[i]);
    CHECK_NEAR(g.sum, (double)logits[other] - log(sum), 1e-5,
               "which is the log-softmax of the logits");
    free(logits);
    double first = g.sum;
    struct buf text = {0};
    for (int i = 0; i < 600; i++)
        buf_addz(&text, " and");
    CHECK_INT(logprob_add(p, buf_str(&text), choices, false, NULL, &why, &e), 0, "a long context");
    logprob_add(p, STR_LIT("he"), choices, false, NULL, &why, &e);
    CHECK(logprob_flush(p, &e) == 0 && g.jobs == 3, "runs, too");
    CHECK(g.cropped == 0 || g.cropped == 600 - 512, "and says what it lost");
    CHECK(logprob_add(p, STR_LIT("he"), choices, false, NULL, &why, &e) == 0 &&
              logprob_flush(p, &e) == 0 && g.sum == first,
          "the same bits whatever else was asked");
    CHECK(logprob_add(p, STR_LIT("he"), empty, false, NULL, &why, &e) == 1 && why, "refused: %s",
          why);
    CHECK(logprob_add(p, STR_LIT("he"), (struct strs){0}, false, NULL, &why, &e) == 1 && why,
          "refused: %s", why);
    some[0] = buf_str(&text);
    CHECK(logprob_add(p, STR_LIT("he"), choices, false, NULL, &why, &e) == 1 && why, "refused: %s",
          why);
    CHECK_INT(g.jobs, 4, "and nothing of them is answered");
    logprob_free(p);
    buf_release(&text);
    local_close(&l);
}

int main(void)
{
    struct err e = {0};
    struct encode_options o = {.special = SPECIAL_PLAIN, .bad_utf8 = BAD_UTF8_REPLACE};
    if (vocab_load(&vocab, "tests/golden/tiny-gpt2/tokenizer.json", NULL, &e) ||
        !(encoder = encoder_new(&vocab, o, &e))) {
        printf("Bail out! %s\n", e.msg);
        return 1;
    }
    test_encode();
    test_jobs();
    encoder_free(encoder);
    vocab_release(&vocab);
    return tap_done();
}

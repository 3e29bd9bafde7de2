/* train: other people's merges, a slow trainer of our own, order, and what cannot be trained.
 *
 * The slow trainer recounts every pair of every piece each round, straight from the definition.
 */
#include "tests/tap.h"

#include <time.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/rng.h"
#include "tokenizer/bpe.h"
#include "tokenizer/train.h"

static struct err err;

/* Merges of some texts, or NULL. */
static struct merge *learn(const char *pattern, const struct str *texts, size_t n, size_t count,
                           size_t *got)
{
    const struct split_pattern *p = split_find(str_z(pattern), &err);
    struct trainer *t = trainer_new(p, &err);
    struct merge *out = NULL;
    int r = t ? 0 : -1;
    for (size_t i = 0; i < n && r == 0; i++)
        r = trainer_add(t, texts[i], &err);
    if (r == 0)
        r = trainer_run(t, count, &out, got, &err);
    trainer_free(t);
    return r == 0 ? out : NULL;
}

static void vectors(void)
{
    const char *path = tap_data("tokenizer/train_vectors.jsonl");
    struct buf file = {0};
    int lines = 0;
    if (!path)
        return SKIP("tokenizer/train_vectors.jsonl");
    CHECK(file_read(path, &file, 0, &err) == 0, "train_vectors.jsonl reads");
    for (struct str rest = buf_str(&file); rest.n > 0;) {
        struct str line = str_cut(&rest, '\n'), pattern;
        struct json *row = line.n ? json_parse(line, &err) : NULL;
        const struct json *want = json_get(row, "merges");
        struct buf text = {0};
        size_t n = 0, same = 0;
        if (!row)
            continue;
        lines++;
        const char *corpus = tap_data("tokenizer/war-and-peace.txt");
        if (!corpus || file_read(corpus, &text, 0, &err)) {
            CHECK(false, "the corpus reads");
            continue;
        }
        struct str slice = {text.p + json_int(json_get(row, "offset"), 0),
                            (size_t)json_int(json_get(row, "length"), 0)};
        pattern = json_str(json_get(row, "pattern"));
        size_t count = (size_t)json_int(json_get(row, "vocab_size"), 0) - 256;
        struct merge *m = learn(pattern.p, &slice, 1, count, &n);
        while (m && same < n && m[same].left == json_int(json_at(json_at(want, same), 0), -1) &&
               m[same].right == json_int(json_at(json_at(want, same), 1), -1))
            same++;
        CHECK(n == json_size(want) && same == n,
              "%.*s: all %zu merges are the reference's (%zu are)", STR_ARG(pattern),
              json_size(want), same);
        /* Merges found again from the ranks alone are the ones that were learned. */
        struct vocab v;
        struct arena a = {0};
        if (m &&
            vocab_trained(&v, m, n, split_find(pattern, &err), STR_LIT(VOCAB_EOT), &err) == 0) {
            char *file_name = arena_printf(&a, "%s/v.tiktoken", tap_tmp());
            struct vocab w;
            struct merge *again;
            size_t k = 0;
            CHECK(vocab_save(&v, file_name, &err) == 0 &&
                      vocab_load(&w, file_name, &(struct vocab_options){.pattern = pattern},
                                 &err) == 0,
                  "it is written as .tiktoken and reads: %s", err.msg);
            CHECK(vocab_merges(&w, &a, &again, &k, &err) == 0 && k == n &&
                      memcmp(again, m, n * sizeof *m) == 0,
                  "and its ranks give back the %zu merges: %s", n, err.msg);
            CHECK_STR(w.hash, v.hash, "and it has the same hash");
            vocab_release(&w);
            vocab_release(&v);
            remove(file_name);
        } else {
            CHECK(false, "the vocabulary is built: %s", err.msg);
        }
        arena_release(&a);
        free(m);
        json_free(row);
        buf_release(&text);
    }
    CHECK_INT(lines, 2, "both lines of the vectors were seen");
    buf_release(&file);
}

/* ---- the slow trainer --------------------------------------------------------------------- */

enum { MAX_LEN = 2000, MAX_MERGES = 60 };

/* One text of letters and blanks; pieces by gpt2's rule for those: a blank and the letters behind.
 * Pieces need no table: the sum over pieces times their number is the sum over all pieces. */
static size_t slow_learn(struct str text, size_t count, struct merge *out)
{
    static int id[MAX_LEN];
    static bool first[MAX_LEN]; /* of a piece */
    size_t n = text.n, made = 0;
    for (size_t i = 0; i < n; i++) {
        id[i] = (unsigned char)text.p[i];
        first[i] = i == 0 || text.p[i] == ' ';
    }
    while (made < count) {
        static long long counts[256 + MAX_MERGES][256 + MAX_MERGES];
        int l = -1, r = -1;
        size_t to = 0;
        memset(counts, 0, sizeof counts);
        for (size_t i = 0; i + 1 < n; i++)
            counts[id[i]][id[i + 1]] += !first[i + 1];
        for (int a = 0; a < 256 + (int)made; a++) {
            for (int b = 0; b < 256 + (int)made; b++) {
                if (counts[a][b] > 0 && (l < 0 || counts[a][b] > counts[l][r]))
                    l = a, r = b;
            }
        }
        if (l < 0)
            break;
        for (size_t i = 0; i < n; to++) {
            bool hit = i + 1 < n && id[i] == l && id[i + 1] == r && !first[i + 1];
            first[to] = first[i];
            id[to] = hit ? 256 + (int)made : id[i];
            i += hit ? 2 : 1;
        }
        n = to;
        out[made] = (struct merge){l, r, 256 + (int)made};
        made++;
    }
    return made;
}

/* Words over a few letters, many runs, so that overlaps and ties are everywhere. */
static void differential(void)
{
    struct rng rng = rng_make(4, "test_train", 0);
    int bad = 0, equal_halves = 0;
    for (int round = 0; round < 150; round++) {
        char text[MAX_LEN];
        size_t n = 40 + rng_below(&rng, MAX_LEN - 40), got = 0;
        int letters = 1 + (int)rng_below(&rng, 4);
        struct merge want[MAX_MERGES], *m;
        for (size_t i = 0; i < n; i++) {
            /* never two blanks: those would be pieces of another kind */
            bool blank = i > 0 && i + 1 < n && text[i - 1] != ' ' && rng_below(&rng, 12) == 0;
            text[i] = blank ? ' ' : (char)('a' + (int)rng_below(&rng, (uint64_t)letters));
        }
        size_t k = slow_learn((struct str){text, n}, MAX_MERGES, want);
        m = learn("gpt2", &(struct str){text, n}, 1, k, &got);
        if (!m || got != k || memcmp(m, want, k * sizeof *m) != 0) {
            if (bad++ < 3)
                printf("# round %d, %d letters, %zu bytes: %s\n", round, letters, n, err.msg);
        }
        for (size_t i = 1; m && i < got; i++)
            equal_halves += m[i].left == m[i].right;
        free(m);
        struct merge *more = learn("gpt2", &(struct str){text, n}, 1, 100000, &got);
        if (more) {
            bad++;
            free(more);
        }
    }
    CHECK(bad == 0, "150 small texts give the slow trainer's merges (%d do not)", bad);
    CHECK(equal_halves > 100, "and equal neighbours were merged in them (%d times)", equal_halves);
}

/* ---- order and limits --------------------------------------------------------------------- */

static void order(void)
{
    const char *path = tap_data("text/tinyshakespeare.txt");
    struct buf file = {0};
    struct str part[4096];
    size_t n = 0, a = 0, b = 0;
    struct rng rng = rng_make(5, "order", 0);
    if (!path)
        return SKIP("text/tinyshakespeare.txt");
    CHECK(file_read(path, &file, 0, &err) == 0, "the plays read");
    for (size_t at = 0; at < file.n && n < 4096; n++) {
        size_t len = file.n - at < 300 ? file.n - at : 300;
        part[n] = (struct str){file.p + at, len};
        at += len;
    }
    struct merge *one = learn("gpt2", part, n, 2000, &a);
    rng_shuffle(&rng, part, n, sizeof *part);
    struct merge *two = learn("gpt2", part, n, 2000, &b);
    CHECK(one && two && a == 2000 && b == 2000 && memcmp(one, two, a * sizeof *one) == 0,
          "%zu texts in another order give the same 2,000 merges", n);
    free(one);
    free(two);
    buf_release(&file);
}

static void limits(void)
{
    struct str tiny = STR_LIT("ab ab"), bad = STR_LIT("a\xff"), none = STR_LIT("");
    size_t n;
    struct merge *m = learn("gpt2", &tiny, 1, 2, &n);
    CHECK(m && n == 2 && m[0].left == 'a' && m[0].right == 'b' && m[1].left == ' ' &&
              m[1].right == 256,
          "a small text gives the merges it has");
    free(m);
    CHECK(!learn("gpt2", &tiny, 1, 3, &n), "but not more than that");
    CHECK_STR(err.msg, "the text has only 258 tokens to give with its 256 bytes, not 259",
              "and says how many");
    CHECK(!learn("gpt2", &bad, 1, 1, &n), "bad UTF-8 is refused: %s", err.msg);
    CHECK(!learn("gpt2", &none, 1, 1, &n), "no text has no merges: %s", err.msg);
    m = learn("gpt2", &none, 1, 0, &n);
    CHECK(m && n == 0, "no merges are always there");
    free(m);
    CHECK(!learn("gpt9", &tiny, 1, 1, &n), "an unknown pattern is refused: %s", err.msg);
}

/* One piece of a million letters: the work must not be a scan of it for each merge. */
static void long_piece(void)
{
    size_t n = 1 << 20, got = 0;
    char *p = malloc(n);
    struct rng rng = rng_make(6, "long_piece", 0);
    for (size_t i = 0; i < n; i++)
        p[i] = (char)('a' + (int)rng_below(&rng, 26));
    double before = (double)clock() / CLOCKS_PER_SEC;
    struct merge *m = learn("gpt2", &(struct str){p, n}, 1, 4000, &got);
    double took = (double)clock() / CLOCKS_PER_SEC - before;
    /* 4,000 scans of a megabyte take seconds; this takes about 0.1 s. */
    CHECK(m && got == 4000 && took < 5, "4,000 merges of one piece of 1 MiB: %.2f CPU s", took);
    free(m);
    free(p);
}

int main(void)
{
    vectors();
    differential();
    order();
    limits();
    long_piece();
    return tap_done();
}

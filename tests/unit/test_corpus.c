/* The known-answer corpus: its probabilities are right, its world is fair, its questions are split
 * by fact. The parser and the enumerator here know nothing of how documents are drawn. */
#include "datasets/corpus.h"
#include "tests/tap.h"

/* ---- a parser that counts derivations ------------------------------------------------------- */

struct todo { /* what is still to be matched: the rest of an alternative, then `next` */
    const struct grammar_alt *alt;
    int at;
    const struct todo *next;
};
struct parse {
    const struct grammar *g;
    struct str text;
    long derivations;
    double bits; /* of the last derivation found */
};

static void walk(struct parse *p, const struct todo *t, size_t pos, double bits)
{
    while (t && t->at == t->alt->pieces)
        t = t->next;
    if (!t) {
        if (pos == p->text.n) {
            p->derivations++;
            p->bits = bits;
        }
        return;
    }
    const struct grammar_piece *piece = &t->alt->piece[t->at];
    struct todo rest = {t->alt, t->at + 1, t->next};
    if (piece->rule < 0) {
        if (piece->text.n <= p->text.n - pos &&
            memcmp(p->text.p + pos, piece->text.p, piece->text.n) == 0)
            walk(p, &rest, pos + piece->text.n, bits);
        return;
    }
    const struct grammar_rule *rule = &p->g->rule[piece->rule];
    for (int i = 0; i < rule->alts; i++) {
        struct todo into = {&rule->alt[i], 0, &rest};
        walk(p, &into, pos, bits - log2((double)rule->alt[i].weight / (double)rule->total));
    }
}

static struct parse parse_text(const struct grammar *g, struct str text)
{
    struct parse p = {.g = g, .text = text};
    struct grammar_piece root = {g->start, {NULL, 0}};
    struct grammar_alt alt = {.piece = &root, .pieces = 1};
    struct todo t = {&alt, 0, NULL};
    walk(&p, &t, 0, 0);
    return p;
}

/* ---- every text of a small grammar ----------------------------------------------------------- */

struct all {
    const struct grammar *g;
    char text[64][80];
    double p[64];
    int n;
    int twice; /* texts that came up again: another derivation */
};

static void expand(struct all *x, const struct todo *t, const char *text, double p)
{
    while (t && t->at == t->alt->pieces)
        t = t->next;
    if (!t) {
        for (int i = 0; i < x->n; i++)
            x->twice += strcmp(x->text[i], text) == 0;
        if (x->n < 64) {
            snprintf(x->text[x->n], sizeof x->text[0], "%s", text);
            x->p[x->n++] = p;
        }
        return;
    }
    const struct grammar_piece *piece = &t->alt->piece[t->at];
    struct todo rest = {t->alt, t->at + 1, t->next};
    if (piece->rule < 0) {
        char more[80];
        snprintf(more, sizeof more, "%s%.*s", text, STR_ARG(piece->text));
        expand(x, &rest, more, p);
        return;
    }
    const struct grammar_rule *rule = &x->g->rule[piece->rule];
    for (int i = 0; i < rule->alts; i++) {
        struct todo into = {&rule->alt[i], 0, &rest};
        expand(x, &into, text, p * (double)rule->alt[i].weight / (double)rule->total);
    }
}

static void enumerate(struct all *x, const struct grammar *g)
{
    struct grammar_piece root = {g->start, {NULL, 0}};
    struct grammar_alt alt = {.piece = &root, .pieces = 1};
    struct todo t = {&alt, 0, NULL};
    *x = (struct all){.g = g};
    expand(x, &t, "", 1);
}

static void tiny_grammar(struct grammar *g)
{
    grammar_add(g, "text", 3, "{who} {did}{tail}");
    grammar_add(g, "text", 1, "Nobody came.");
    grammar_add(g, "who", 2, "Mara");
    grammar_add(g, "who", 5, "Ivo");
    grammar_add(g, "did", 1, "sang.");
    grammar_add(g, "did", 1, "saw {who}.");
    grammar_add(g, "tail", 4, "");
    grammar_add(g, "tail", 3, " {who} left.");
}

static void test_tiny(void)
{
    struct grammar g = {0};
    struct err e = {0};
    static struct all x;
    tiny_grammar(&g);
    CHECK(grammar_close(&g, "text", &e) == 0, "a small grammar closes");
    enumerate(&x, &g);
    double sum = 0;
    int wrong = 0;
    for (int i = 0; i < x.n; i++) {
        struct parse p = parse_text(&g, str_z(x.text[i]));
        sum += x.p[i];
        wrong += p.derivations != 1 || fabs(p.bits + log2(x.p[i])) > 1e-12;
    }
    CHECK_INT(x.n, 1 + 2 * 3 * 3, "all 19 texts of it are found");
    CHECK_NEAR(sum, 1, 1e-12, "their probabilities sum to 1");
    CHECK_INT(x.twice, 0, "no text comes up twice");
    CHECK_INT(wrong, 0, "each parses in one way, to the bits of its probability");

    /* What is drawn has the frequencies that the weights say. */
    double chi2 = 0;
    int seen[64] = {0}, draws = 20000, strange = 0;
    struct rng r = rng_make(7, "test", 0);
    struct buf b = {0};
    for (int d = 0; d < draws; d++) {
        buf_cut(&b, 0);
        double bits = grammar_draw(&g, &r, &b);
        int k = 0;
        while (k < x.n && strcmp(x.text[k], b.p) != 0)
            k++;
        strange += k == x.n || fabs(bits + log2(x.p[k])) > 1e-12;
        seen[k < x.n ? k : 0]++;
    }
    for (int i = 0; i < x.n; i++)
        chi2 += pow(seen[i] - draws * x.p[i], 2) / (draws * x.p[i]);
    CHECK_INT(strange, 0, "every text drawn is one of them and says its own bits");
    CHECK(chi2 < 42.3, "frequencies of 20,000 draws fit (chi2 %.1f, df 18, p > 0.001)", chi2);
    buf_release(&b);
    grammar_release(&g);
}

static void test_refused(void)
{
    struct grammar g = {0};
    struct err e = {0};
    grammar_add(&g, "a", 1, "x{b}");
    grammar_add(&g, "b", 1, "y{a}");
    CHECK(grammar_close(&g, "a", &e) && strstr(e.msg, "reaches itself"),
          "a rule that reaches itself is refused: %s", e.msg);
    grammar_release(&g);
    grammar_add(&g, "a", 1, "x{b}");
    CHECK(grammar_close(&g, "a", &e) && strstr(e.msg, "\"b\""),
          "a reference to nothing is refused: %s", e.msg);
    CHECK(grammar_close(&g, "z", &e) != 0, "a missing start is refused: %s", e.msg);
    grammar_release(&g);
    grammar_add(&g, "a", 0, "x");
    CHECK(grammar_close(&g, "a", &e) && strstr(e.msg, "positive"), "a weight of 0 is refused: %s",
          e.msg);
    grammar_release(&g);
    grammar_add(&g, "a", 1, "{b}{b}");
    grammar_add(&g, "b", 1, "x");
    grammar_add(&g, "b", 1, "xx");
    CHECK(grammar_close(&g, "a", &e) == 0 && parse_text(&g, str_z("xxx")).derivations == 2,
          "the parser counts both derivations of an ambiguous text");
    grammar_release(&g);
}

/* ---- the corpus ------------------------------------------------------------------------------ */

/* Entropy of a rule in bits, exactly. */
static double entropy(const struct grammar *g, int at)
{
    const struct grammar_rule *r = &g->rule[at];
    double h = 0;
    for (int i = 0; i < r->alts; i++) {
        double p = (double)r->alt[i].weight / (double)r->total, inner = -log2(p);
        for (int k = 0; k < r->alt[i].pieces; k++)
            if (r->alt[i].piece[k].rule >= 0)
                inner += entropy(g, r->alt[i].piece[k].rule);
        h += p * inner;
    }
    return h;
}

static void test_documents(const struct grammar *g)
{
    enum { N = 3000 };
    struct buf b = {0};
    double sum = 0, square = 0;
    int many = 0, off = 0, longer = 0, bad_utf8 = 0;
    for (int i = 0; i < N; i++) {
        struct arena a = {0};
        struct doc d = corpus_doc(g, 11, i, &b, &a);
        struct parse p = parse_text(g, d.text);
        many += p.derivations != 1;
        off += !(fabs(p.bits - d.oracle_bits) < 1e-9);
        longer += d.text.n > g->rule[g->start].longest;
        bad_utf8 += utf8_valid(d.text) != d.text.n;
        sum += d.oracle_bits;
        square += d.oracle_bits * d.oracle_bits;
        arena_release(&a);
    }
    CHECK_INT(many, 0, "each of %d documents has exactly one derivation", N);
    CHECK_INT(off, 0, "whose bits are its oracle_bits");
    CHECK_INT(longer, 0, "none is longer than the grammar's longest text");
    CHECK_INT(bad_utf8, 0, "all are UTF-8");
    double mean = sum / N, se = sqrt((square / N - mean * mean) / N);
    CHECK_NEAR(mean, entropy(g, g->start), 4 * se,
               "mean oracle_bits is the entropy of the grammar within 4 standard errors");
    struct arena a = {0};
    struct doc d = corpus_doc(g, 11, 77, &b, &a), again = corpus_doc(g, 11, 77, &b, &a),
               other = corpus_doc(g, 12, 77, &b, &a);
    CHECK(str_eq(d.text, again.text) && str_eq(d.id, again.id) &&
              d.oracle_bits == again.oracle_bits,
          "a document depends on seed and index only");
    CHECK(!str_eq(d.text, other.text) && !str_eq(d.id, other.id), "another seed is another corpus");
    arena_release(&a);
    buf_release(&b);
}

static int count(struct str text, const char *what)
{
    int n = 0;
    struct str rest = text;
    for (ptrdiff_t at; (at = str_find(rest, str_z(what))) >= 0; n++) {
        rest.p += at + 1;
        rest.n -= (size_t)at + 1;
    }
    return n;
}

/* How often each way to state each possible fact occurs in a corpus. */
static void test_facts_are_stated(const struct grammar *g)
{
    struct buf b = {0}, all = {0};
    struct arena a = {0};
    for (int i = 0; i < 4000; i++) {
        struct doc d = corpus_doc(g, 1, i, &b, &a);
        buf_adds(&all, d.text);
        buf_addc(&all, '\n');
    }
    int least = 1 << 30, lies = 0;
    for (int p = 0; p < CORPUS_PEOPLE; p++)
        for (int k = 0; k < CORPUS_KINDS; k++)
            for (int s = 0; s < CORPUS_STATEMENTS; s++) {
                const struct corpus_person *who = &corpus_people[p];
                int n = count(buf_str(&all), corpus_fill(&a, corpus_kinds[k].statement[s],
                                                         who->name, who->value[k]));
                least = n < least ? n : least;
                const char *lie = corpus_people[(p + 1) % CORPUS_PEOPLE].value[k];
                if (strcmp(lie, who->value[k]) != 0)
                    lies += count(buf_str(&all),
                                  corpus_fill(&a, corpus_kinds[k].statement[s], who->name, lie));
            }
    CHECK(least >= 8, "4,000 documents state every fact in every way (%d times at least)", least);
    CHECK_INT(lies, 0, "and nothing that is false");
    arena_release(&a);
    buf_release(&b);
    buf_release(&all);
}

static void test_world(void)
{
    int uses_off = 0, shared = 0, strange = 0;
    for (int k = 0; k < CORPUS_KINDS; k++)
        for (int v = 0; v < CORPUS_VALUES; v++) {
            int uses = 0;
            for (int p = 0; p < CORPUS_PEOPLE; p++)
                uses += strcmp(corpus_people[p].value[k], corpus_kinds[k].value[v]) == 0;
            uses_off += uses != CORPUS_PEOPLE / CORPUS_VALUES;
        }
    for (int p = 0; p < CORPUS_PEOPLE; p++)
        for (int q = 0; q < p; q++) {
            int same = 0;
            for (int k = 0; k < CORPUS_KINDS; k++)
                same += strcmp(corpus_people[p].value[k], corpus_people[q].value[k]) == 0;
            shared += same > 1;
            strange += strcmp(corpus_people[p].name, corpus_people[q].name) == 0;
        }
    CHECK_INT(uses_off, 0, "each value belongs to exactly two people");
    CHECK_INT(shared, 0, "no two people share more than one value");
    CHECK_INT(strange, 0, "no two people share a name");
}

static void test_words(const struct grammar *g)
{
    struct buf b = {0};
    struct arena a = {0};
    static struct str word[1000];
    int n = 0;
    for (int i = 0; i < 4000; i++) {
        struct doc d = corpus_doc(g, 2, i, &b, &a);
        for (struct str rest = d.text; rest.n;) {
            struct str w = str_cut(&rest, ' ');
            if (w.n && w.p[w.n - 1] == '.')
                w.n--;
            int k = 0;
            while (k < n && !str_eq(word[k], w))
                k++;
            if (k == n && n < 1000)
                word[n++] = w;
        }
    }
    CHECK(n >= 160 && n <= 240, "a corpus has about 200 words (%d)", n);
    arena_release(&a);
    buf_release(&b);
}

static void test_questions(void)
{
    struct json *all = corpus_instructions();
    int test = 0, val = 0, train = 0, answer_off = 0, choice_off = 0, grade_off = 0, split_off = 0;
    CHECK_INT(json_size(all), CORPUS_PEOPLE * CORPUS_KINDS * CORPUS_QUESTIONS,
              "there are 3 questions for each of 96 facts");
    for (size_t i = 0; i < json_size(all); i++) {
        const struct json *v = json_at(all, i), *graded = json_get(v, "graded"),
                          *choices = json_get(v, "choices");
        struct str out = json_str(json_get(v, "output")), split = json_str(json_get(v, "split"));
        int named = 0;
        test += str_eqz(split, "test");
        val += str_eqz(split, "val");
        train += str_eqz(split, "train");
        for (size_t k = 0; k < json_size(choices); k++)
            named += str_find(out, json_str(json_at(choices, k))) >= 0;
        choice_off += named != 1 || json_size(choices) != CORPUS_VALUES;
        answer_off += !str_eq(out, json_str(json_at(graded, 0)));
        grade_off +=
            json_size(graded) != CORPUS_GRADES || str_eq(out, json_str(json_at(graded, 1))) ||
            str_find(json_str(json_at(graded, 2)), out) < 0 ||
            str_find(json_str(json_at(graded, 3)), out) >= 0 || json_str(json_at(graded, 4)).n != 0;
        for (size_t k = 0; k < i; k++) {
            const struct json *w = json_at(all, k);
            bool same_fact =
                str_eq(json_str(json_get(v, "cluster")), json_str(json_get(w, "cluster")));
            split_off += same_fact && !str_eq(split, json_str(json_get(w, "split")));
            split_off +=
                str_eq(json_str(json_get(v, "instruction")), json_str(json_get(w, "instruction")));
        }
    }
    CHECK_INT(test, 72, "24 facts are held out for test, with their 3 questions");
    CHECK_INT(val, 24, "8 for validation");
    CHECK_INT(train, 192, "64 are trained on");
    CHECK_INT(split_off, 0, "a fact lies in one split, and no question is asked twice");
    CHECK_INT(answer_off, 0, "the right answer is the first grade");
    CHECK_INT(choice_off, 0, "it names one of the 12 values of its kind");
    CHECK_INT(grade_off, 0, "reworded, padded, wrong and empty answers are what they say");
    json_free(all);
    int person[CORPUS_PEOPLE] = {0}, kind[CORPUS_KINDS] = {0}, off = 0;
    for (int p = 0; p < CORPUS_PEOPLE; p++)
        for (int k = 0; k < CORPUS_KINDS; k++)
            if (strcmp(corpus_split(p, k), "test") == 0) {
                person[p]++;
                kind[k]++;
            }
    for (int p = 0; p < CORPUS_PEOPLE; p++)
        off += person[p] != 1;
    for (int k = 0; k < CORPUS_KINDS; k++)
        off += kind[k] != 6;
    CHECK_INT(off, 0, "one held-out fact a person, six a kind");
}

int main(void)
{
    struct grammar g = {0};
    struct err e = {0};
    test_tiny();
    test_refused();
    CHECK(corpus_grammar(&g, &e) == 0, "the corpus grammar closes");
    test_documents(&g);
    test_facts_are_stated(&g);
    test_world();
    test_words(&g);
    test_questions();
    struct json *truth = corpus_truth(&g);
    CHECK_INT(json_size(json_get(truth, "facts")), 96, "truth.json lists 96 facts");
    CHECK_INT(json_size(json_get(json_get(truth, "grammar"), "rules")), g.rules,
              "and every rule of the grammar");
    json_free(truth);
    grammar_release(&g);
    return tap_done();
}

/* Cleaning, cutting and splitting. */
#include "base/file.h"
#include "datasets/clean.h"
#include "datasets/split.h"
#include "tests/tap.h"

static const char *cleaned(const char *text)
{
    static char out[4][256];
    static int at;
    char *to = out[at++ & 3];
    struct buf b = {0};
    clean_text(str_z(text), &b);
    snprintf(to, sizeof out[0], "%s", b.p ? b.p : "");
    buf_release(&b);
    return to;
}

static void test_clean(void)
{
    struct buf b = {0};
    CHECK_STR(cleaned("\xEF\xBB\xBFone"), "one", "a byte order mark at the start goes");
    CHECK_STR(cleaned("a\xEF\xBB\xBF"), "a\xEF\xBB\xBF", "one elsewhere stays");
    CHECK_STR(cleaned("a\r\nb\r\n"), "a\nb\n", "CR LF becomes LF");
    CHECK_STR(cleaned("a\rb\r"), "a\rb\r", "a CR alone stays");
    CHECK_STR(cleaned("a\n\n\n\nb\r\n\r\n\r\nc"), "a\n\nb\n\nc", "blank-line runs become one");
    CHECK_STR(cleaned("\n\n\na\n\n\n"), "\na\n\n", "also at both ends");
    CHECK_STR(cleaned("hyphen-\nated  x \ny"), "hyphen-\nated  x \ny",
              "broken words and white space stay");
    CHECK(!clean_text(STR_LIT("a\n\nb\n"), &b) && clean_text(STR_LIT("a\r\n"), &b),
          "it says whether anything changed");
    const char *once = cleaned("\xEF\xBB\xBF\r\n\r\n\r\na\r\r\n\n\n\nb");
    CHECK_STR(cleaned(once), once, "cleaning twice is cleaning once");
    buf_release(&b);
}

static void test_pieces(void)
{
    struct str rest = STR_LIT("\n\naaaa\naa\n\nbbbb\n\n\ncc\r\n\r\ndddddddddd\n\ne\n"), p;
    CHECK(clean_piece(&rest, 8, &p) && str_eqz(p, "aaaa\naa\n\nbbbb"),
          "a piece is whole paragraphs of at least the size asked");
    CHECK(clean_piece(&rest, 8, &p) && str_eqz(p, "cc\r\n\r\ndddddddddd\n\ne"),
          "a short rest joins the last piece");
    CHECK(!clean_piece(&rest, 8, &p), "then there is none");
    rest = STR_LIT("no blank line\nanywhere");
    CHECK(clean_piece(&rest, 4, &p) && str_eqz(p, "no blank line"),
          "a text without blank lines is cut at a line end");
    CHECK(clean_piece(&rest, 4, &p) && str_eqz(p, "anywhere") && !rest.n, "and nothing is lost");
    rest = STR_LIT("no line end anywhere");
    CHECK(clean_piece(&rest, 4, &p) && str_eqz(p, "no line end anywhere") && !rest.n,
          "a text without line ends stays whole");
    rest = STR_LIT("\n\n\n");
    CHECK(!clean_piece(&rest, 4, &p), "blank lines alone are no piece");
}

/* ---- documents ------------------------------------------------------------------------------- */

static const char *tmp_file(struct arena *a, const char *name)
{
    return path_join(a, tap_tmp(), name);
}

static void write_corpus(const char *path, int n)
{
    struct buf b = {0};
    struct err e = {0};
    for (int i = 0; i < n; i++)
        buf_printf(&b, "{\"id\": \"doc-%d\", \"text\": \"text %d\", \"oracle_bits\": %d.5}\n", i, i,
                   i);
    CHECK(file_write_all(path, buf_str(&b), &e) == 0, "%d documents to split", n);
    buf_release(&b);
}

static void test_docs(void)
{
    struct arena a = {0};
    struct err e = {0};
    const char *in = tmp_file(&a, "in.jsonl"), *train = tmp_file(&a, "train.jsonl"),
               *test = tmp_file(&a, "test.jsonl");
    struct str path = str_z(in), out[2] = {str_z(train), str_z(test)};
    struct split_docs o = {.in = {&path, 1}, .holdout = 0.1};
    struct split_counts n;
    write_corpus(in, 2000);
    CHECK(split_docs(&o, train, test, &n, &e) == 0, "it splits (%s)", e.msg);
    CHECK_INT(n.train_docs + n.test_docs, 2000, "every document goes somewhere");
    CHECK(n.test_docs > 150 && n.test_docs < 250, "about a tenth is held out (%lld)",
          (long long)n.test_docs);
    int wrong = 0, seen = 0;
    for (int side = 0; side < 2; side++) {
        struct doc d;
        struct docs *r = docs_open((struct strs){&out[side], 1}, BAD_UTF8_ERROR, &e);
        while (r && docs_next(r, &d, &e) > 0) {
            double k = strtod(str_dup(&a, d.id) + strlen("doc-"), NULL);
            wrong += doc_held_out(d.id, 0.1) != (side == 1) || d.oracle_bits != k + 0.5;
            seen++;
        }
        docs_close(r);
    }
    CHECK_INT(seen, 2000, "all can be read back");
    CHECK_INT(wrong, 0, "each on the side its id says, with its oracle_bits");
    o.holdout = 1e-9;
    CHECK(split_docs(&o, train, test, &n, &e) && strstr(e.msg, "--holdout"),
          "a share that holds nothing out is an error: %s", e.msg);
    o.holdout = 1;
    CHECK(split_docs(&o, train, test, &n, &e) && strstr(e.msg, "lower --holdout"),
          "a share that leaves nothing too: %s", e.msg);
    o.holdout = 0.1;
    o.test_in = (struct strs){&path, 1};
    CHECK(split_docs(&o, train, test, &n, &e) == 0 && n.train_docs == 2000 && n.test_docs == 2000,
          "with test documents given nothing is held out");
    path = STR_LIT("/nonexistent/x.jsonl");
    CHECK(split_docs(&o, tmp_file(&a, "no1"), tmp_file(&a, "no2"), &n, &e) != 0 &&
              !file_exists(tmp_file(&a, "no1")) && !file_exists(tmp_file(&a, "no2")),
          "a missing input leaves no file: %s", e.msg);
    arena_release(&a);
}

static void test_paragraphs(void)
{
    struct arena a = {0};
    struct err e = {0};
    const char *in = tmp_file(&a, "book.txt"), *train = tmp_file(&a, "b1.jsonl"),
               *test = tmp_file(&a, "b2.jsonl");
    struct str path = str_z(in), text = {0};
    struct buf b = {0}, back = {0};
    struct split_docs o = {.in = {&path, 1}, .holdout = 0.3, .clean = true, .paragraphs = 300};
    struct split_counts n;
    for (int i = 0; i < 400; i++)
        buf_printf(&b, "%sParagraph %d of a long book.", i ? "\r\n\r\n\r\n" : "", i);
    CHECK(file_write_all(in, buf_str(&b), &e) == 0 && split_docs(&o, train, test, &n, &e) == 0 &&
              n.cut == 1 && n.cleaned == 1,
          "a long text is cleaned and cut (%s)", e.msg);
    CHECK(n.train_docs + n.test_docs >= 35 && n.train_docs + n.test_docs <= 42 && n.test_docs > 3,
          "into pieces of about that size, some of them held out (%lld and %lld)",
          (long long)n.train_docs, (long long)n.test_docs);
    struct str outs[2] = {str_z(train), str_z(test)};
    struct docs *r = docs_open((struct strs){outs, 2}, BAD_UTF8_ERROR, &e);
    struct doc d;
    int64_t bytes = 0, odd = 0;
    while (docs_next(r, &d, &e) > 0) {
        bytes += (int64_t)d.text.n;
        odd += !str_starts(d.id, "book.txt#0") || !str_starts(d.text, "Paragraph ") ||
               !str_ends(d.text, "book.") || d.text.n < 150 || d.text.n > 500;
    }
    docs_close(r);
    CHECK_INT(odd, 0, "named after the text, whole paragraphs each");
    buf_cut(&back, 0);
    clean_text(buf_str(&b), &back);
    text = buf_str(&back);
    CHECK_INT(bytes + 2 * (n.train_docs + n.test_docs - 1), text.n,
              "nothing is lost but the blank lines between them");
    buf_release(&b);
    buf_release(&back);
    arena_release(&a);
}

/* ---- instructions ---------------------------------------------------------------------------- */

static struct items make_items(struct arena *a, size_t n)
{
    struct items x = {.v = arena_array(a, n, sizeof *x.v), .n = n};
    for (size_t i = 0; i < n; i++) {
        x.v[i].id = str_printf(a, "i%zu", i);
        x.v[i].instruction = str_printf(a, "ask %zu", i);
    }
    return x;
}

static void test_items(void)
{
    struct arena a = {0};
    struct err e = {0};
    struct items part[SPLIT_PARTS], x = make_items(&a, 1100);
    CHECK(split_items(&x, 0.10, 0.05, part, &e) == 0 && part[SPLIT_TRAIN].n == 935 &&
              part[SPLIT_TEST].n == 110 && part[SPLIT_VAL].n == 55,
          "1,100 items give 935, 110 and 55 as in the reference series");
    CHECK(str_eqz(part[SPLIT_TRAIN].v[0].id, "i0") && str_eqz(part[SPLIT_TEST].v[0].id, "i935") &&
              str_eqz(part[SPLIT_VAL].v[0].id, "i1045"),
          "in file order: train, test, then val as the tail");
    CHECK(str_eqz(part[SPLIT_TEST].v[109].split, "test"), "items say their split afterwards");
    split_items_release(part);

    x = make_items(&a, 100);
    CHECK(split_items(&x, 0.29, 0.01, part, &e) == 0 && part[SPLIT_TRAIN].n == 70 &&
              part[SPLIT_TEST].n == 29 && part[SPLIT_VAL].n == 1,
          "29%% of 100 are 29, though 0.29 * 100 is a little less in doubles");
    split_items_release(part);
    x = make_items(&a, 10);
    x.v[0].split = STR_LIT("test");
    x.v[9].split = STR_LIT("train");
    CHECK(split_items(&x, 0.25, 0.25, part, &e) == 0 && str_eqz(part[SPLIT_TEST].v[0].id, "i0") &&
              part[SPLIT_TEST].n == 3 && part[SPLIT_VAL].n == 2 && part[SPLIT_TRAIN].n == 5,
          "a split that an item names is kept, the others share the rest");
    split_items_release(part);
    x.v[4].split = STR_LIT("dev");
    CHECK(split_items(&x, 0.25, 0.25, part, &e) && strstr(e.msg, "i4") && strstr(e.msg, "dev"),
          "an unknown split is refused: %s", e.msg);
    split_items_release(part);
    x = make_items(&a, 3);
    CHECK(split_items(&x, 0.1, 0.05, part, &e) && strstr(e.msg, "test split"),
          "too few items are refused: %s", e.msg);
    split_items_release(part);

    x = make_items(&a, 20);
    x.v[0].instruction = STR_LIT("say a");
    x.v[0].input = STR_LIT("b");
    x.v[1].instruction = STR_LIT("say ab");   /* not the same prompt */
    x.v[17].instruction = x.v[2].instruction; /* test = i16, i17; val = i18, i19 */
    x.v[18].instruction = x.v[3].instruction;
    x.v[19].instruction = x.v[16].instruction;
    x.v[5].instruction = x.v[6].instruction;
    x.v[7].instruction = x.v[8].instruction;
    x.v[7].input = STR_LIT("other");
    CHECK(split_items(&x, 0.1, 0.1, part, &e) == 0, "20 items split");
    struct json *v = split_duplicates(part);
    CHECK_INT(json_int(json_get(v, "distinct_prompts"), 0), 16, "four prompts are repeats");
    CHECK(json_size(json_get(v, "test_in_train")) == 1 &&
              str_eqz(json_str(json_at(json_get(v, "test_in_train"), 0)), "i17"),
          "the test item whose prompt is trained on is named");
    CHECK(json_size(json_get(v, "val_in_train")) == 1 &&
              str_eqz(json_str(json_at(json_get(v, "val_in_train"), 0)), "i18"),
          "so is the validation item");
    json_free(v);
    split_items_release(part);
    arena_release(&a);
}

static void test_reference_data(void)
{
    const char *path = tap_data("instruct/instruction-data.json");
    struct items x, part[SPLIT_PARTS];
    struct err e = {0};
    if (!path) {
        SKIP("instruct/instruction-data.json");
        return;
    }
    CHECK(items_load(&x, path, &e) == 0 && split_items(&x, 0.1, 0.05, part, &e) == 0,
          "instruction-data.json splits (%s)", e.msg);
    struct json *v = split_duplicates(part);
    CHECK(part[SPLIT_TRAIN].n == 935 && part[SPLIT_TEST].n == 110 && part[SPLIT_VAL].n == 55,
          "935, 110 and 55 items");
    CHECK_INT(json_int(json_get(v, "distinct_prompts"), 0), 1075, "1,075 prompts are distinct");
    CHECK_INT(json_size(json_get(v, "test_in_train")), 2, "2 test prompts occur in train");
    CHECK_INT(json_size(json_get(v, "val_in_train")), 4, "and 4 validation prompts");
    json_free(v);
    split_items_release(part);
    items_release(&x);
}

int main(void)
{
    struct err e = {0};
    test_clean();
    test_pieces();
    test_docs();
    test_paragraphs();
    test_items();
    test_reference_data();
    CHECK(file_remove_tree(tap_tmp(), &e) == 0, "the scratch folder is removed");
    return tap_done();
}

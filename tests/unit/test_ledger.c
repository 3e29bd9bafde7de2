/* The ledger: what is found, filtered, sorted and shown; notes; runs without a result. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "formats/record_head.h"
#include "pipelines/ledger.h"
#include "pipelines/query.h"
#include "pipelines/runs_table.h"
#include "tests/tap.h"

static struct arena arena;
static char dir[] = "/tmp/assay-ledger-XXXXXX";

static const char *at(const char *name)
{
    return path_join(&arena, dir, name);
}

static struct result blank(const char *run)
{
    struct err e;
    struct result r;
    schema_defaults(&result_schema, &r, &arena, &e);
    r.run = str_z(run);
    r.group = STR_LIT("g");
    r.status = STR_LIT("finished");
    return r;
}

static void save(const char *name, struct result r, double bits, size_t items)
{
    struct err e = {0};
    struct metric m;
    schema_defaults(&metric_schema, &m, &arena, &e);
    m.name = STR_LIT("bits_byte");
    m.task = STR_LIT("documents");
    m.value = bits;
    m.ids = (struct strs){arena_array(&arena, items, sizeof(struct str)), items};
    m.num = (struct f64s){arena_array(&arena, items, 8), items};
    m.den = m.num;
    for (size_t i = 0; i < items; i++)
        m.ids.v[i] = str_printf(&arena, "%zu", i);
    r.metrics = (struct list){&m, isnan(bits) ? 0 : 1};
    if (record_save(at(name), &result_schema, &r, &e) != 0)
        tap_ok(false, __FILE__, __LINE__, "save: %s", e.msg);
}

static struct strs words(const char *text)
{
    struct str one = str_z(text);
    struct strs s = {0};
    for (struct str rest = one; rest.n;)
        strs_push(&s, str_cut(&rest, ';'), &arena);
    return s;
}

/* Names of the runs that are left, in order. */
static const char *left(const char *where, const char *by)
{
    struct ledger l;
    struct err e = {0};
    struct buf b = {0};
    struct strs paths = {&(struct str){dir, strlen(dir)}, 1};
    if (ledger_heads(&l, paths, &e) != 0)
        return arena_strdup(&arena, e.msg);
    if (ledger_select(&l, words(where), words(by), &e) != 0)
        buf_printf(&b, "%d: %s", e.code, e.msg);
    else
        for (size_t i = 0; i < l.n; i++)
            buf_printf(&b, "%s%.*s", i ? " " : "", STR_ARG(l.v[i].run));
    const char *s = arena_strdup(&arena, b.p ? b.p : "");
    buf_release(&b);
    ledger_release(&l);
    return s;
}

static void filters(void)
{
    CHECK_STR(left("", ""), "a b c d", "a folder of runs, in the order of names");
    CHECK_STR(left("train.lr>=1e-3", ""), "b c", "numbers compare");
    CHECK_STR(left("train.lr<1e-3", ""), "a d", "and the other way");
    CHECK_STR(left("config.train.lr=0.001", ""), "b",
              "a whole path, and numbers are equal as such");
    CHECK_STR(left("bits_byte<1.15", ""), "b", "a metric");
    CHECK_STR(left("bits_byte/documents>1.15;seed=1", ""), "a",
              "a metric of a task; all conditions must hold");
    CHECK_STR(left("tags=best", ""), "a c", "a tag is one of the tags");
    CHECK_STR(left("tags!=best", ""), "b d", "and is not");
    CHECK_STR(left("status!=finished", ""), "d", "failed runs are found by their status");
    CHECK_STR(left("run ~ ^[BC]$", ""), "b c", "an expression, whatever the case");
    CHECK_STR(left("timing.mfu>0", ""), "", "an unknown number is not above zero");
    CHECK_STR(left("", "bits_byte"), "b a c d", "by a metric, unknown last");
    CHECK_STR(left("", "-bits_byte"), "c a b d", "descending, unknown last all the same");
    CHECK_STR(left("", "seed;-train.lr"), "a d c b", "by two fields");
    CHECK(strstr(left("train.lrr>1", ""), "did you mean \"train.lr\""), "the near miss is said");
    CHECK(strstr(left("lr>1", ""), "2: condition \"lr>1\": the field \"lr\" is in several"),
          "a word of several sections is refused: %s", left("lr>1", ""));
    CHECK(strstr(left("seed", ""), "want FIELD OP VALUE"), "no operator is refused");
    CHECK(strstr(left("seed>x", ""), "is no number"), "order wants a number");
    CHECK(strstr(left("run~(", ""), "run~("), "a broken expression is refused");
    CHECK(strstr(left("", "nosuch"), "nosuch"), "so is an unknown field to sort by");
}

static void columns(void)
{
    struct ledger l;
    struct err e = {0};
    struct buf b = {0};
    struct strs paths = {&(struct str){dir, strlen(dir)}, 1};
    ledger_heads(&l, paths, &e);
    struct strs cols = listed_names(words("train.lr,bits_byte;seed, tags"), &arena);
    CHECK_INT(cols.n, 4, "columns with and without commas");
    CHECK_INT(runs_table_columns(l.v, l.n, cols, 2, TABLE_CSV, "", &b, &e), 0, "csv");
    CHECK(strstr(b.p, "run,train.lr,bits_byte,seed,tags\r\na,0.0001,1.2"), "has full precision");
    buf_cut(&b, 0);
    runs_table_columns(l.v, l.n, cols, 2, TABLE_TEXT, "", &b, &e);
    CHECK(strstr(b.p, "a        0.00       1.20     1  best"), "text has the digits asked for:\n%s",
          b.p);
    CHECK(strstr(b.p, "d        0.00          -     1"), "and - for what is unknown");
    CHECK_INT(runs_table_columns(l.v, l.n, words("x"), 2, TABLE_TEXT, "", &b, &e), -1, "%s", e.msg);
    struct json *j;
    CHECK_INT(runs_json(l.v, l.n, cols, &j, &e), 0, "json");
    CHECK_NEAR(json_num(json_get(json_at(j, 1), "bits_byte")), 1.1, 0, "has numbers");
    json_free(j);
    CHECK(l.v[0].metrics.n == 1 && ((struct metric *)l.v[0].metrics.v)->ids.n == 0,
          "heads have no items");
    ledger_fill(&l, &e);
    CHECK_INT(((struct metric *)l.v[0].metrics.v)->ids.n, 3, "until they are filled");
    buf_release(&b);
    ledger_release(&l);
}

static void notes(void)
{
    struct err e = {0};
    struct str x[] = {{"new", 3}}, y[] = {{"best", 4}};
    struct note n = {.add = {x, 1}, .remove = {y, 1}, .notes = STR_LIT("looks good")};
    struct clock c = clock_fake(0);
    CHECK_INT(ledger_note(at("a/result.msgpack"), &n, &c, &e), 0, "a note: %s", e.msg);
    CHECK_STR(left("tags=new", ""), "a", "adds a tag");
    CHECK_STR(left("tags=best", ""), "c", "takes one away");
    CHECK_STR(left("notes~good", ""), "a", "and says something");

    const char *journal = at("a/result.notes.msgpack");
    int fd = open(journal, O_RDWR | O_APPEND);
    flock(fd, LOCK_EX);
    CHECK(ledger_note(at("a/result.msgpack"), &n, &c, &e) == -1,
          "a writer that does not end is not waited for forever: %s", e.msg);
    CHECK(c.slept >= 5 && c.slept < 6, "but for some seconds: %g", c.slept);
    CHECK_STR(left("tags=new", ""), "a", "a reader is not kept waiting by the writer's lock");
    CHECK(write(fd, "\x20\x00\x00\x00torn", 8) == 8, "a writer dies in the middle");
    close(fd);
    CHECK_STR(left("tags=new", ""), "a", "the torn tail is dropped");
    n = (struct note){.add = {y, 1}};
    CHECK_INT(ledger_note(at("a/result.msgpack"), &n, &c, &e), 0, "and cut by the next writer");
    CHECK_STR(left("tags=best;tags=new", ""), "a", "whose note is read");
    CHECK_STR(left("notes~good", ""), "a", "with what stood before it");
}

static void unfinished(void)
{
    struct err e = {0};
    file_write_all(at("e/run.ini"), STR_LIT("[run]\ntags = wip\n[train]\nseed = 9\n"), &e);
    CHECK_STR(left("status~not trained", ""), "e", "a run that did not begin");
    file_write_all(at("e/pretrain/failed.json"),
                   STR_LIT("{\"sentence\":\"no such device\",\"step\":0}"), &e);
    CHECK_STR(left("status~^failed before its first step: no such device$", ""), "e",
              "a run that failed before it could begin");
    file_write_all(
        at("e/pretrain/metrics.jsonl"),
        STR_LIT("{\"step\":1,\"tokens\":10}\n{\"step\":2,\"tokens\":20}\n{\"step\":3,\"to"), &e);
    CHECK_STR(left("status~^failed after step 2: no such device$", ""), "e",
              "or before it could go on");
    unlink(at("e/pretrain/failed.json"));
    CHECK_STR(left("status~^killed at step 2$", ""), "e", "a run that was killed");
    CHECK_STR(left("tokens=20;seed=9;tags=wip", ""), "e", "with what it had reached");
    int fd = open(at("e/pretrain/metrics.jsonl"), O_RDWR);
    flock(fd, LOCK_EX);
    CHECK_STR(left("status~^running, step 2$", ""), "e", "a run that is at work");
    close(fd);
    file_write_all(at("e/pretrain/manifest.json"), STR_LIT("{}"), &e);
    CHECK_STR(left("status~no result yet", ""), "e", "a run that is trained only");
}

static void versions(void)
{
    struct err e = {0};
    struct buf b = {0};
    save("old.msgpack", blank("old"), 2.5, 1);
    file_read(at("old.msgpack"), &b, 0, &e);
    struct ledger l;
    struct str path = str_z(at("old.msgpack"));
    struct schema next = result_schema; /* what a later build will have */
    static const char *const none[] = {NULL};
    struct result r;
    next.version++;
    CHECK_INT(record_load_without(at("old.msgpack"), &next, none, &r, &arena, &e), 0,
              "a later build reads today's results: %s", e.msg);
    CHECK_STR(str_dup(&arena, r.run), "old", "with their values");
    b.p[12] = 99;
    file_write_all(at("old.msgpack"), buf_str(&b), &e);
    CHECK(ledger_heads(&l, (struct strs){&path, 1}, &e) == -1 && strstr(e.msg, "file has 99"),
          "a newer one is refused: %s", e.msg);
    b.p[12] = (char)result_schema.version;
    file_write_all(at("old.msgpack"), (struct str){b.p, b.n - 3}, &e);
    CHECK(ledger_heads(&l, (struct strs){&path, 1}, &e) == -1 && strstr(e.msg, "no whole result"),
          "a cut one is no result: %s", e.msg);
    struct strs twice = {(struct str[]){str_z(at("a")), str_z(at("a")), str_z(at("a"))}, 3};
    CHECK_INT(ledger_heads(&l, twice, &e), 0, "one run three times");
    CHECK_INT((long long)l.n, 1, "is one run");
    ledger_release(&l);
    file_mkdirs(at("copy"), &e);
    struct buf whole = {0};
    file_read(at("a/result.msgpack"), &whole, 0, &e);
    file_write_all(at("copy/result.msgpack"), buf_str(&whole), &e);
    buf_release(&whole);
    twice.v[1] = str_z(at("copy"));
    twice.n = 2;
    CHECK_INT(ledger_heads(&l, twice, &e), 0, "another file of that run");
    CHECK_STR(str_dup(&arena, l.v[1].run), "a#2", "has a name of its own");
    file_remove_tree(at("copy"), &e);
    ledger_release(&l);
    path = str_z(at("e/pretrain"));
    CHECK(ledger_heads(&l, (struct strs){&path, 1}, &e) == -1, "a folder without runs: %s", e.msg);
    unlink(at("old.msgpack"));
    b.p[b.n / 2] ^= 1;
    file_mkdirs(at("damaged"), &e);
    file_write_all(at("damaged/result.msgpack"), buf_str(&b), &e);
    CHECK_STR(left("status~^unreadable: .*no whole result in it: the checksum of record 1 at byte "
                   "26 is wrong",
                   ""),
              "damaged", "a damaged one among others is shown as such");
    CHECK_STR(left("run=a", ""), "a", "and the others are there");
    path = str_z(at("damaged"));
    CHECK(ledger_heads(&l, (struct strs){&path, 1}, &e) == -1, "asked for alone it is an error: %s",
          e.msg);
    file_remove_tree(at("damaged"), &e);
    buf_release(&b);
}

/* 1,000 results of 2,000 items each. The bound is generous: machines that test are busy. */
static void many(void)
{
    struct err e = {0};
    struct ledger l;
    struct strs paths = {&(struct str){dir, strlen(dir)}, 1};
    save("m/result.msgpack", blank("m"), 1, 2000);
    for (int i = 0; i < 996; i++) {
        const char *name = arena_printf(&arena, "m%03d", i);
        file_mkdirs(at(name), &e);
        if (link(at("m/result.msgpack"), at(arena_printf(&arena, "%s/result.msgpack", name))))
            perror("link");
    }
    double t = clock_now();
    CHECK(ledger_heads(&l, paths, &e) == 0 && l.n == 1002, "1,002 runs are listed");
    t = clock_now() - t;
    CHECK(t < 2, "1,000 results of 2,000 items in %.3f s (0.5 on a quiet machine)", t);
    ledger_release(&l);
}

int main(void)
{
    struct err e = {0};
    struct str tags[] = {{"best", 4}, {"x", 1}};
    if (!mkdtemp(dir))
        return 1;
    struct result a = blank("a"), b = blank("b"), c = blank("c"), d = blank("d");
    a.seed = d.seed = 1;
    b.seed = c.seed = 2;
    a.config.train.lr = d.config.train.lr = 1e-4;
    b.config.train.lr = 1e-3;
    c.config.train.lr = 2e-3;
    a.tags = (struct strs){tags, 1};
    c.tags = (struct strs){tags, 2};
    d.status = STR_LIT("incomplete: no pretrain");
    save("a/result.msgpack", a, 1.2, 3);
    save("b/result.msgpack", b, 1.1, 3);
    save("c/result.msgpack", c, 1.3, 3);
    save("d/result.msgpack", d, NAN, 0);
    filters();
    columns();
    notes();
    unfinished();
    versions();
    many();
    file_remove_tree(dir, &e);
    arena_release(&arena);
    return tap_done();
}

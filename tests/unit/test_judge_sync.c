/* The judge's journal: every verdict reaches the kernel before its connection is used again, and the
 * disk at most every 100 ms. Writes and syncs are counted through file_os; the clock moves 7 ms a
 * write, so nothing depends on how fast this machine is.
 */
#include "pipelines/judge.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "tests/httpd.h"

enum { ITEMS = 120 };
#define STEP 0.007

static struct arena arena;
/* file_os and clocks get no context of a test's own. */
static struct clock clock;
static struct {
    int writes, syncs, early, late; /* syncs sooner than 100 ms, or later than two writes more */
    double last;
} seen;

static ssize_t count_write(int fd, const void *p, size_t n)
{
    clock.at += STEP;
    seen.writes++;
    return write(fd, p, n);
}

static int count_sync(int fd)
{
    double since = clock.now(&clock) - seen.last;
    if (!seen.writes) /* the folder, where the journal is new */
        return fsync(fd);
    seen.syncs++;
    seen.early += since < 0.1;
    seen.late += since > 0.1 + 2 * STEP; /* one more may come before the sync */
    seen.last = clock.now(&clock);
    return fsync(fd);
}

static int real_rename(const char *from, const char *to)
{
    return rename(from, to);
}

static const struct file_os counting = {count_write, count_sync, real_rename};

static const char *at(const char *name)
{
    return arena_printf(&arena, "%s/%s", tap_tmp(), name);
}

static int write_inputs(struct err *e)
{
    struct item it[ITEMS] = {0};
    struct items items = {.v = it, .n = ITEMS};
    struct records *w = records_open(at("r.msgpack"), &response_schema, RECORD_WRITE, e);
    for (int i = 0; w && i < ITEMS; i++) {
        it[i].id = str_printf(&arena, "i%d", i);
        it[i].task = it[i].instruction = it[i].id;
        struct response r = {.item = it[i].id, .text = it[i].id};
        if (records_append(w, &r, e))
            return -1;
    }
    return !w || records_close(w, e) || items_save(&items, at("items.msgpack"), e) ? -1 : 0;
}

/* Counts what the asking does to the journal; the report that follows is not counted. */
static int stop_counting(struct judge_asker *g, struct err *e)
{
    int rc = judge_ask_all(g, at("verdicts.msgpack"), e);
    file_set_os(NULL);
    return rc;
}

int main(void)
{
    struct httpd h;
    struct err e = {0};
    struct judge_asker g;
    struct str responses = str_z(at("r.msgpack"));
    log_open("test", LOG_QUIET);
    unsetenv("ASSAY_API_KEY");
    clock = clock_fake(1e9);
    CHECK(write_inputs(&e) == 0 &&
              httpd_start(&h, "on POST /v1/chat/completions\nbody {\"choices\":"
                              "[{\"message\":{\"content\":\"85\"},"
                              "\"finish_reason\":\"stop\"}]}\n"),
          "a judge answers");
    struct judge_job j = {.items = at("items.msgpack"),
                          .c = {.judge = str_z(arena_printf(&arena, "%s/v1#m", h.url)),
                                .concurrency = 1,
                                .max_tokens = 16,
                                .timeout = 20},
                          .asks = 1,
                          .repeat = 1,
                          .clock = &clock};
    judge_asker_init(&g, &j);
    CHECK(judge_entrants(&g, (struct strs){&responses, 1}, &arena, &e) == 0 &&
              judge_open(&g, j.items, "score100", true, &arena, &e) == 0,
          "%d questions are planned %s", ITEMS, e.msg);
    judge_plan(&g, &j);
    file_set_os(&counting);
    CHECK_INT(stop_counting(&g, &e), 0, "and asked %s", e.msg);
    httpd_stop(&h);
    /* The last sync closes the journal, whenever that is. */
    CHECK_INT(seen.writes, ITEMS + 1, "one write a verdict, behind the journal's head");
    CHECK_INT(seen.early, 1, "no sync within 100 ms of another but at the end");
    CHECK_INT(seen.late, 0, "and none later than the verdicts at hand then");
    CHECK(seen.syncs >= 8 && seen.syncs <= 9, "%d syncs for %d verdicts", seen.syncs, ITEMS);
    judge_close(&g);
    file_remove_tree(tap_tmp(), &e);
    arena_release(&arena);
    return tap_done();
}

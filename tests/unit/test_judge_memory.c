/* Memory of `assay judge` does not grow with the number of items (base/spool.h): what it holds of them
 * lies behind caches, which 2,000 items fill in part and 30,000 wholly. */
#include "tests/fastd.h"
#include "tests/tap.h"

static long peak_kib(const char *dir, int n, int port, char *concurrency)
{
    char judge[64], items[300], answers[300], out[300], tool[300];
    const char *t = getenv("ASSAY");
    snprintf(tool, sizeof tool, "%s", t && *t ? t : "build/assay");
    snprintf(judge, sizeof judge, "http://127.0.0.1:%d/v1#m", port);
    snprintf(items, sizeof items, "%s/items%d.jsonl", dir, n);
    snprintf(answers, sizeof answers, "%s/r%d.msgpack", dir, n);
    snprintf(out, sizeof out, "%s/out%d", dir, n);
    char *argv[] = {tool,    "judge", "--judge", judge,           "--items",   items, "--responses",
                    answers, "--out", out,       "--concurrency", concurrency, NULL};
    struct fastd_cost c = fastd_run(argv);
    CHECK_INT(c.status, 0, "%d items are judged", n);
    return c.rss_kib;
}

int main(void)
{
    enum { FEW = 2000, MANY = 30000, CACHES = 8 << 10, NOISE = 3 << 10 };
    struct err e = {0};
    int port = 0;
    if (fastd_inputs(tap_tmp(), FEW, &e) || fastd_inputs(tap_tmp(), MANY, &e)) {
        CHECK(false, "inputs are written: %s", e.msg);
        return tap_done();
    }
    pid_t server = fastd_start(0, &port);
    CHECK(server > 0, "a server answers");
    long few = peak_kib(tap_tmp(), FEW, port, "32"), many = peak_kib(tap_tmp(), MANY, port, "32");
    CHECK(few > 1000 && many - few < CACHES,
          "28,000 items more need less than 8 MiB more, the caches: %ld and %ld KiB", few, many);
    char manifest[300];
    snprintf(manifest, sizeof manifest, "%s/out%d/manifest.json", tap_tmp(), MANY);
    CHECK(remove(manifest) == 0, "without its manifest the scores are made again from the journal");
    kill(server, SIGKILL); /* nobody is asked */
    waitpid(server, NULL, 0);
    long again = peak_kib(tap_tmp(), MANY, port, "32");
    CHECK(again < many + NOISE, "which needs no more either: %ld KiB", again);
    file_remove_tree(tap_tmp(), &e);
    return tap_done();
}

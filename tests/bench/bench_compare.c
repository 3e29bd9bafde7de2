/* Listing 1,000 results and comparing two of 10,000 items, beside reading the same bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rng.h"
#include "formats/record.h"
#include "pipelines/compare.h"
#include "pipelines/ledger.h"

static struct arena arena;

static int save(const char *path, const char *run, size_t n, uint64_t seed)
{
    struct err e;
    struct result r;
    struct metric m;
    struct rng g = rng_make(seed, "bench", 0), items = rng_make(0, "bench", 0);
    schema_defaults(&result_schema, &r, &arena, &e);
    schema_defaults(&metric_schema, &m, &arena, &e);
    r.run = str_z(run);
    r.seed = (int64_t)seed;
    m.name = STR_LIT("bits_byte");
    m.task = STR_LIT("documents");
    m.primary = true;
    m.ids = (struct strs){arena_array(&arena, n, sizeof(struct str)), n};
    m.num = (struct f64s){arena_array(&arena, n, 8), n};
    m.den = (struct f64s){arena_array(&arena, n, 8), n};
    struct str identity[] = {{"documents=a", 11}, {"rule=b", 6}, {"precision=c", 11}};
    m.identity = (struct strs){identity, 3};
    for (size_t i = 0; i < n; i++) {
        m.ids.v[i] = str_printf(&arena, "docs.jsonl:%zu", i);
        m.num.v[i] = 1 + 0.3 * rng_normal(&items) + 0.02 * rng_normal(&g);
        m.den.v[i] = 1;
    }
    m.value = 1;
    r.metrics = (struct list){&m, 1};
    r.curve.loss = m.num;
    r.curve.loss.n = n < 1000 ? n : 1000;
    return record_save(path, &result_schema, &r, &e);
}

int main(void)
{
    struct err e = {0};
    struct ledger l;
    struct comparison c;
    char dir[] = "/tmp/assay-bench-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    struct str where = str_z(dir);
    for (int i = 0; i < 1000; i++) {
        const char *name = arena_printf(&arena, "r%03d", i);
        const char *run = path_join(&arena, dir, name);
        if (file_mkdirs(run, &e) ||
            save(path_join(&arena, run, "result.msgpack"), name, 2000, (uint64_t)i)) {
            fprintf(stderr, "bench: %s\n", e.msg);
            return 1;
        }
        if (i % 50 == 49)
            arena_release(&arena);
    }
    double t = clock_now(), bytes = 0;
    uint32_t crc = 0;
    for (int i = 0; i < 1000; i++) {
        struct file_map m;
        if (file_map(arena_printf(&arena, "%s/r%03d/result.msgpack", dir, i), &m, &e))
            continue;
        crc ^= crc32c(0, m.p, m.n);
        bytes += (double)m.n;
        file_unmap(&m);
    }
    double plain = clock_now() - t;
    t = clock_now();
    int rc = ledger_heads(&l, (struct strs){&where, 1}, &e);
    double heads = clock_now() - t;
    printf("listing 1,000 results of 2,000 items (%.0f MB): %.3f s (want < 0.5), checksums alone "
           "%.3f s, ratio %.1f (%s, %08x)\n",
           bytes / 1e6, heads, plain, heads / plain, rc ? e.msg : "ok", crc);
    ledger_release(&l);
    struct str two[] = {str_z(path_join(&arena, dir, "a.msgpack")),
                        str_z(path_join(&arena, dir, "b.msgpack"))};
    if (save(two[0].p, "a", 10000, 1) || save(two[1].p, "b", 10000, 2))
        return 1;
    t = clock_now();
    struct compare_options o = {.level = 0.95};
    rc = ledger_load(&l, (struct strs){two, 2}, &e) || compare_runs(&c, l.v, l.n, &o, &e);
    printf("comparing two runs of 10,000 items: %.3f s (want < 0.2) (%s)\n", clock_now() - t,
           rc ? e.msg : "ok");
    if (!rc)
        compare_release(&c);
    ledger_release(&l);
    file_remove_tree(dir, &e);
    arena_release(&arena);
    return 0;
}

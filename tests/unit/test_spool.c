/* Spools: bytes on scratch disk behind a small cache, and the table on them. */
#include "base/spool.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "tests/tap.h"

enum { CELLS = 400000 }; /* of 8 bytes: three times the cache */

static void test_bytes(void)
{
    struct spool s = {0};
    struct err e = {0};
    uint64_t v, wrong = 0;
    char text[10000], got[10000];
    spool_read(&s, 12345, &v, sizeof v);
    CHECK(v == 0, "what was never written is zero");
    for (uint64_t i = 0; i < CELLS; i++) {
        uint64_t at = i * 7919 % CELLS; /* all of them, far apart */
        v = at * 3 + 1;
        spool_write(&s, at * sizeof v, &v, sizeof v);
    }
    CHECK(s.fd > 0, "more than the cache goes to a file");
    for (uint64_t i = 0; i < CELLS; i++) {
        spool_read(&s, i * sizeof v, &v, sizeof v);
        wrong += v != i * 3 + 1;
    }
    CHECK_INT((int64_t)wrong, 0, "all of it comes back");
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 31);
    uint64_t at = spool_append(&s, text, sizeof text);
    spool_read(&s, at, got, sizeof got);
    CHECK(at == CELLS * sizeof v && memcmp(text, got, sizeof got) == 0,
          "a text over several pages stands behind");
    CHECK(spool_check(&s, &e) == 0, "without an error");
    spool_release(&s);
    spool_write(&s, 0, "x", 1);
    CHECK(s.fd == 0, "what fits into the cache has no file");
    spool_release(&s);
}

static void test_index(void)
{
    struct spool_index x = {0};
    uint64_t missing = 0, extra = 0;
    for (uint64_t i = 0; i < 50000; i++)
        spool_index_add(&x, hash64(&i, sizeof i, 0) % 40000, i); /* many share a hash */
    for (uint64_t i = 0; i < 50000; i++) {
        uint64_t probe = 0, v, hash = hash64(&i, sizeof i, 0) % 40000, seen = 0;
        while (spool_index_next(&x, hash, &probe, &v)) {
            seen += v == i;
            extra += hash64(&v, sizeof v, 0) % 40000 != hash;
        }
        missing += seen != 1;
    }
    CHECK_INT((int64_t)missing, 0, "every number is found under its hash, once");
    CHECK_INT((int64_t)extra, 0, "and none under another's");
    uint64_t probe = 0, v;
    CHECK(!spool_index_next(&x, 99999999, &probe, &v), "a hash that was never added has none");
    spool_index_release(&x);
}

static void test_failure(void)
{
    struct spool s = {0};
    struct err e = {0};
    char page[4096] = {1};
    setenv("TMPDIR", "/does/not/exist", 1);
    for (uint64_t i = 0; i < 257; i++)
        spool_write(&s, i * sizeof page, page, sizeof page);
    CHECK(spool_check(&s, &e) == -1 && strstr(e.msg, "/does/not/exist") && strstr(e.msg, "TMPDIR"),
          "a scratch folder that is not there is said: %s", e.msg);
    spool_read(&s, 0, page, sizeof page);
    CHECK(page[0] == 0, "and gives zeros from then on");
    spool_release(&s);
    unsetenv("TMPDIR");
}

int main(void)
{
    test_bytes();
    test_index();
    test_failure();
    return tap_done();
}

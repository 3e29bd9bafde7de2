/* The base core against published values: CRC-32C, SHA-256, Philox, UTF-8, numbers, buffers. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "tests/tap.h"

static void errors(void)
{
    struct err e = {0};
    CHECK_INT(err_code(&e, EXIT_USAGE, "no key %s", "x"), -1, "err_code returns -1");
    err_wrap(&e, "train");
    CHECK_STR(e.msg, "train: no key x", "a sentence is built outward");
    CHECK_INT(e.code, EXIT_USAGE, "wrapping keeps the code");
}

static void hashes(void)
{
    char hex[SHA256_HEX];
    sha256_hex(STR_LIT("abc"), hex);
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
              "SHA-256 of abc (FIPS 180-2)");
    CHECK_INT(crc32c(0, "123456789", 9), 0xE3069283, "CRC-32C check value (RFC 3720)");
    uint32_t part = crc32c(crc32c(0, "1234", 4), "56789", 5);
    CHECK_INT(part, 0xE3069283, "CRC-32C in two parts");
    CHECK(hash64("abcdefghijklmnopqrs", 19, 1) != hash64("abcdefghijklmnopqrt", 19, 1),
          "hash64 sees the last byte");
    struct err e;
    CHECK_INT(sha256_file("/", hex, &e), -1, "hashing a folder fails: %s", e.msg);
    CHECK_INT(sha256_file("/nonexistent", hex, &e), -1, "hashing nothing fails: %s", e.msg);
}

/* Known answers of the Random123 distribution for philox4x32_10. */
static void philox(void)
{
    uint32_t o[4];
    rng_at(0, 0, 0, o);
    CHECK(o[0] == 0x6627e8d5 && o[1] == 0xe169c58d && o[2] == 0xbc57ac4c && o[3] == 0x9b00dbd8,
          "Philox of zeros");
    rng_at(UINT64_MAX, UINT64_MAX, UINT64_MAX, o);
    CHECK(o[0] == 0x408f276d && o[1] == 0x41c83b0e && o[2] == 0xa20bc7c6 && o[3] == 0x6d5451fd,
          "Philox of ones");
    struct rng a = rng_make(1, "a", 0), b = rng_make(1, "b", 0), c = rng_make(2, "a", 0);
    uint64_t x = rng_u64(&a);
    CHECK(x != rng_u64(&b) && x != rng_u64(&c), "name and seed keep streams apart");
    double sum = 0, sq = 0;
    for (int i = 0; i < 100000; i++) {
        double z = rng_normal(&a);
        sum += z;
        sq += z * z;
    }
    CHECK_NEAR(sum / 1e5, 0, 0.02, "normal: mean");
    CHECK_NEAR(sq / 1e5, 1, 0.03, "normal: variance");
}

static void permutation(void)
{
    const uint64_t sizes[] = {1, 2, 3, 5, 16, 17, 1000, 4097};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint64_t n = sizes[k], fixed = 0;
        bool ok = true;
        char *seen = mem_zero(n);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t j = rng_permute(rng_key(7, "order"), n, i);
            ok = ok && j < n && !seen[j];
            if (j < n)
                seen[j] = 1;
            fixed += j == i;
        }
        CHECK(ok && (n < 1000 || fixed < 10), "rng_permute is a bijection of %llu",
              (unsigned long long)n);
        free(seen);
    }
}

static void text(void)
{
    int64_t i;
    double d;
    CHECK(str_i64(STR_LIT("1.5M"), &i) == 0 && i == 1500000, "1.5M");
    CHECK(str_i64(STR_LIT("1_000"), &i) == 0 && i == 1000, "1_000");
    CHECK(str_i64(STR_LIT("-3"), &i) == 0 && i == -3, "-3");
    const char *bad[] = {"", " 1", "1 ", "1x", "1.5", "99999999999999999999", "_1", "9e18T", "K"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        CHECK_INT(str_i64(str_z(bad[k]), &i), -1, "'%s' is no integer", bad[k]);
    CHECK(str_f64(STR_LIT("6e-4"), &d) == 0 && d == 6e-4, "6e-4");
    const char *badf[] = {"", "nan", "inf", "0x1p3", "1e999", "1,5", "--1"};
    for (size_t k = 0; k < sizeof badf / sizeof *badf; k++)
        CHECK_INT(str_f64(str_z(badf[k]), &d), -1, "'%s' is no number", badf[k]);
    CHECK_INT(str_distance("batch_size", "batchsize"), 1, "edit distance");
    struct str rest = STR_LIT("a,b"), one = str_cut(&rest, ',');
    CHECK(str_eqz(one, "a") && str_eqz(rest, "b"), "str_cut");
}

static void utf8(void)
{
    struct {
        struct str s;
        size_t bad;
    } cases[] = {
        {STR_LIT("plain ascii text"), 16}, {STR_LIT("a\xC3\xA9z"), 4},
        {STR_LIT("\xF0\x9F\x8C\x8D"), 4},  {STR_LIT("ab\xFF"), 2},
        {STR_LIT("\xED\xA0\x80"), 0},      {STR_LIT("\xC0\x80"), 0},
        {STR_LIT("\xF4\x90\x80\x80"), 0},  {STR_LIT("x\xE4\xB8"), 1},
        {STR_LIT("12345678\x80"), 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_INT(utf8_valid(cases[i].s), cases[i].bad, "UTF-8 case %zu", i);
    bool same = true;
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp >= 0xD800 && cp < 0xE000)
            continue;
        char t[4];
        int n = utf8_put(t, cp);
        struct str s = {t, (size_t)n};
        size_t at = 0;
        same = same && utf8_valid(s) == s.n && utf8_next(s, &at) == cp && at == s.n;
    }
    CHECK(same, "every code point goes out and in");
}

static void buffers(void)
{
    struct buf b = {.max = 8};
    CHECK_INT(buf_addz(&b, "12345678"), 0, "a buffer takes its cap");
    CHECK_INT(buf_addc(&b, 'x'), -1, "and not a byte more");
    CHECK(b.over && b.n == 8, "over is remembered, nothing was added");
    buf_release(&b);
    struct buf c = {0};
    for (int i = 0; i < 1000; i++)
        buf_printf(&c, "%d,", i);
    CHECK(c.n == 3890 && c.p[c.n] == '\0', "buf_printf grows");
    buf_release(&c);
    struct arena a = {0};
    bool ok = true;
    for (size_t i = 0; i < 3000; i++) {
        char *p = arena_alloc(&a, i);
        ok = ok && ((uintptr_t)p & 15) == 0;
        memset(p, 1, i);
    }
    CHECK(ok, "arena memory is aligned");
    CHECK_STR(arena_printf(&a, "%s-%d", "x", 5), "x-5", "arena_printf");
    arena_release(&a);
    struct clock f = clock_fake(1000);
    f.sleep(&f, 30);
    CHECK(f.now(&f) == 30 && f.wall(&f) == 1030, "the fake clock jumps");
    char iso[32];
    clock_iso(1796031631, iso);
    CHECK_STR(iso, "2026-11-30T09:40:31Z", "clock_iso");
}

int main(void)
{
    errors();
    hashes();
    philox();
    permutation();
    text();
    utf8();
    buffers();
    return tap_done();
}

/* Records without their bulk: what is passed over keeps its default, all else is as in a whole read. */
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "formats/record_head.h"
#include "formats/record_pack.h"
#include "formats/result.h"
#include "tests/tap.h"

int main(void)
{
    struct arena a = {0};
    struct err e = {0};
    struct result r, whole, head;
    char path[] = "/tmp/assay-head-XXXXXX";
    int fd = mkstemp(path);
    close(fd);
    schema_defaults(&result_schema, &r, &a, &e);
    r.run = STR_LIT("one");
    r.seed = 7;
    struct str ids[] = {{"a", 1}, {"b", 1}}, tags[] = {{"x", 1}};
    double num[] = {1, 2}, den[] = {1, 1}, loss[] = {3, 2};
    struct metric m[2];
    for (int i = 0; i < 2; i++) {
        schema_defaults(&metric_schema, &m[i], &a, &e);
        m[i].name = i ? STR_LIT("acc") : STR_LIT("nll_token");
        m[i].value = 1.5 + i;
        m[i].ids = (struct strs){ids, 2};
        m[i].num = (struct f64s){num, 2};
        m[i].den = (struct f64s){den, 2};
    }
    r.metrics = (struct list){m, 2};
    r.curve.loss = (struct f64s){loss, 2};
    r.tags = (struct strs){tags, 1};
    r.config.train.lr = 0.25;
    CHECK_INT(record_save(path, &result_schema, &r, &e), 0, "a result is written");

    static const char *const without[] = {"curve", "metrics.ids", "metrics.num", "metrics.den",
                                          NULL};
    static const char *const nothing[] = {NULL};
    CHECK_INT(record_load_without(path, &result_schema, without, &head, &a, &e), 0,
              "and read without its bulk: %s", e.msg);
    const struct metric *h = head.metrics.v;
    CHECK(head.metrics.n == 2 && h[1].value == 2.5 && str_eqz(h[1].name, "acc"),
          "metrics keep their values");
    CHECK(h[0].ids.n == 0 && h[0].num.n == 0 && h[1].den.n == 0 && head.curve.loss.n == 0,
          "and lose what was named");
    CHECK(head.seed == 7 && head.tags.n == 1 && head.config.train.lr == 0.25,
          "the rest is as it was");
    CHECK_INT(record_load_without(path, &result_schema, nothing, &whole, &a, &e), 0,
              "naming nothing reads all");
    struct buf x = {0}, y = {0};
    record_pack(&result_schema, &r, &x);
    record_pack(&result_schema, &whole, &y);
    CHECK(x.n == y.n && memcmp(x.p, y.p, x.n) == 0, "to the same bytes");

    /* Every cut of the payload is an error or a shorter map, never a read beyond it. */
    size_t fine = 0;
    for (size_t n = 0; n < x.n; n++) {
        struct buf out = {0};
        char *exact = mem_alloc(n ? n : 1);
        memcpy(exact, x.p, n);
        fine += record_slim((struct str){exact, n}, without, &out, &e) == 0;
        free(exact);
        buf_release(&out);
    }
    CHECK_INT(fine, 0, "no cut payload is taken for whole");
    buf_addc(&x, 'x');
    buf_cut(&y, 0);
    CHECK_INT(record_slim(buf_str(&x), without, &y, &e), -1, "bytes behind the map: %s", e.msg);

    /* The checksum's eight tables against one bit at a time. */
    unsigned char bytes[67];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    size_t wrong = 0;
    for (size_t at = 0; at < 9; at++)
        for (size_t n = 0; at + n <= sizeof bytes; n++) {
            uint32_t c = 0xffffffffu;
            for (size_t i = 0; i < n; i++) {
                c ^= bytes[at + i];
                for (int k = 0; k < 8; k++)
                    c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
            }
            wrong += crc32c(0, bytes + at, n) != ~c;
        }
    CHECK_INT(wrong, 0, "crc32c of every length and alignment");
    CHECK_INT(crc32c(0, "123456789", 9), 0xe3069283u, "and the published check value");
    unlink(path);
    buf_release(&x);
    buf_release(&y);
    arena_release(&a);
    return tap_done();
}

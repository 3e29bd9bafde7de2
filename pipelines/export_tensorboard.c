/* export_tensorboard: event files, see export.h. Field numbers are those of TensorBoard's event.proto,
 * summary.proto and tensor.proto.
 */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "pipelines/export.h"

/* ---- protobuf --------------------------------------------------------------------------------- */

static void varint(struct buf *b, uint64_t v)
{
    while (v >= 128) {
        buf_addc(b, (char)(v | 128));
        v >>= 7;
    }
    buf_addc(b, (char)v);
}

static void little(struct buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_addc(b, (char)(v >> (8 * i)));
}

enum wire { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

static void key(struct buf *b, int field, enum wire w)
{
    varint(b, (uint64_t)field << 3 | (uint64_t)w);
}

static void put_int(struct buf *b, int field, int64_t v)
{
    key(b, field, WIRE_VARINT);
    varint(b, (uint64_t)v);
}

static void put_double(struct buf *b, int field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    key(b, field, WIRE_64);
    little(b, bits, 8);
}

static void put_float(struct buf *b, int field, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    key(b, field, WIRE_32);
    little(b, bits, 4);
}

static void put_bytes(struct buf *b, int field, struct str s)
{
    key(b, field, WIRE_BYTES);
    varint(b, s.n);
    buf_adds(b, s);
}

/* ---- records ---------------------------------------------------------------------------------- */

/* CRC-32C, turned and offset, so that a CRC of bytes that hold CRCs is no weaker. */
static uint32_t masked(const void *p, size_t n)
{
    uint32_t c = crc32c(0, p, n);
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

static void record(struct buf *file, const struct buf *event)
{
    struct buf head = {0};
    little(&head, event->n, 8);
    buf_adds(file, buf_str(&head));
    little(file, masked(head.p, head.n), 4);
    buf_adds(file, buf_str(event));
    little(file, masked(event->p, event->n), 4);
    buf_release(&head);
}

/* Event { 1 wall_time, 2 step, 3 file_version | 5 summary } */
static void put_event(struct buf *file, double wall, int64_t step, int field,
                      const struct buf *what)
{
    struct buf event = {0};
    put_double(&event, 1, wall);
    if (step)
        put_int(&event, 2, step);
    put_bytes(&event, field, buf_str(what));
    record(file, &event);
    buf_release(&event);
}

/* Summary { 1 value { 1 tag, 2 simple_value } } */
static void put_scalar(struct buf *file, const struct point *p)
{
    struct buf value = {0}, summary = {0};
    put_bytes(&value, 1, str_z(p->key));
    put_float(&value, 2, (float)p->value);
    put_bytes(&summary, 1, buf_str(&value));
    put_event(file, p->wall, p->step, 5, &summary);
    buf_release(&value);
    buf_release(&summary);
}

/* Summary { 1 value { 1 tag, 8 tensor { 1 dtype = 7, 2 shape { 2 dim { 1 size = 1 } }, 8 string_val },
 * 9 metadata { 1 plugin_data { 1 plugin_name = "text" } } } }: what the text plugin shows, as Markdown */
static void put_text(struct buf *file, const char *tag, struct str text, double wall)
{
    struct buf dim = {0}, shape = {0}, tensor = {0}, name = {0}, meta = {0}, value = {0},
               summary = {0};
    put_int(&dim, 1, 1);
    put_bytes(&shape, 2, buf_str(&dim));
    put_int(&tensor, 1, 7);
    put_bytes(&tensor, 2, buf_str(&shape));
    put_bytes(&tensor, 8, text);
    put_bytes(&name, 1, STR_LIT("text"));
    put_bytes(&meta, 1, buf_str(&name));
    put_bytes(&value, 1, str_z(tag));
    put_bytes(&value, 9, buf_str(&meta));
    put_bytes(&value, 8, buf_str(&tensor));
    put_bytes(&summary, 1, buf_str(&value));
    put_event(file, wall, 0, 5, &summary);
    struct buf *all[] = {&dim, &shape, &tensor, &name, &meta, &value, &summary};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buf_release(all[i]);
}

static void put_table(struct buf *md, struct strs k, struct strs v)
{
    buf_addz(md, "| key | value |\n| --- | --- |\n");
    for (size_t i = 0; i < k.n; i++)
        buf_printf(md, "| %.*s | %.*s |\n", STR_ARG(k.v[i]), STR_ARG(v.v[i]));
}

/* A row of a table as put_table writes it. */
static bool has_row(struct str file, const char *key, struct str value, struct arena *a)
{
    return !value.n || str_find(file, str_printf(a, "| %s | %.*s |", key, STR_ARG(value))) >= 0;
}

/* Whether the event file that is there is of this very run: begun at that time, of that group and seed. Two
 * runs may have one name in two folders. */
static int same_run(const char *path, const struct result *r, double wall, bool *same,
                    struct arena *a, struct err *e)
{
    struct buf old = {0};
    double began = NAN;
    *same = false;
    if (file_read(path, &old, 0, e) != 0)
        return -1;
    if (old.n > 21) /* record head, then field 1 of the first event */
        memcpy(&began, old.p + 13, sizeof began);
    struct str all = buf_str(&old);
    *same = began == wall && has_row(all, "assay.group", r->group, a) &&
            has_row(all, "train.seed", str_printf(a, "%lld", (long long)r->config.train.seed), a);
    buf_release(&old);
    return 0;
}

int export_tensorboard(const struct result *r, const char *dir, bool replace, struct err *e)
{
    struct arena a = {0};
    struct flat f;
    struct buf file = {0}, text = {0}, version = {0};
    const char *folder = path_join(&a, dir, str_dup(&a, r->run));
    const char *path = path_join(&a, folder, "events.out.tfevents.assay");
    bool same = true;
    int rc = -1;
    export_flatten(&f, r, &a);
    double wall = f.n ? f.v[0].wall : 0;
    for (size_t i = 0; i < f.n; i++)
        wall = fmin(wall, f.v[i].wall);
    if (!replace && file_exists(path) && same_run(path, r, wall, &same, &a, e) != 0)
        goto out;
    if (!same) {
        err_set(e,
                "%s is of another run of that name; --replace puts this one in its place, another "
                "--out keeps both",
                folder);
        goto out;
    }
    buf_addz(&version, "brain.Event:2");
    put_event(&file, wall, 0, 3, &version);
    put_table(&text, f.param, f.value);
    put_text(&file, "config/text_summary", buf_str(&text), wall);
    buf_cut(&text, 0);
    put_table(&text, f.tag, f.tag_value);
    put_text(&file, "run/text_summary", buf_str(&text), wall);
    for (size_t i = 0; i < f.n; i++)
        put_scalar(&file, &f.v[i]);
    rc = file_write_all(path, buf_str(&file), e);
out:
    buf_release(&version);
    buf_release(&text);
    buf_release(&file);
    arena_release(&a);
    return rc;
}

/* tar: writing and reading archives, see tar.h. */
#include "pipelines/tar.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512, AT_SIZE = 124, AT_SUM = 148, AT_KIND = 156, AT_TARGET = 157, AT_PREFIX = 345 };

bool tar_name_ok(const char *name)
{
    struct str rest = str_z(name);
    if (!rest.n || rest.p[0] == '/')
        return false;
    for (size_t i = 0; i < rest.n; i++)
        if ((unsigned char)rest.p[i] < 32 || rest.p[i] == 127)
            return false;
    if (rest.p[rest.n - 1] == '/')
        rest.n--;
    while (rest.n) {
        bool last = !memchr(rest.p, '/', rest.n);
        struct str part = str_cut(&rest, '/');
        if (!part.n || str_eqz(part, ".") || str_eqz(part, "..") || (!last && !rest.n))
            return false;
    }
    return true;
}

/* ---- writing ---------------------------------------------------------------------------------- */

static void octal(char *at, int digits, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%0*llo", digits, (long long)v);
    memcpy(at, text, (size_t)digits);
}

static unsigned checksum(const char block[BLOCK])
{
    unsigned sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : (unsigned char)block[i];
    return sum;
}

/* The name in its two fields: up to 100 bytes, or prefix / name cut at a slash. */
static int put_name(char block[BLOCK], const char *name, struct err *e)
{
    size_t n = strlen(name);
    if (!tar_name_ok(name))
        return err_set(e, "\"%s\" can't be the name of a file in an archive", name);
    if (n <= 100) {
        memcpy(block, name, n);
        return 0;
    }
    for (size_t cut = n - 1; cut > 0; cut--)
        if (name[cut] == '/' && cut <= 155 && n - cut - 1 <= 100) {
            memcpy(block + AT_PREFIX, name, cut);
            memcpy(block, name + cut + 1, n - cut - 1);
            return 0;
        }
    return err_set(e, "%s: the name is too long for an archive", name);
}

static int put_head(struct file_out *to, const char *name, char kind, int64_t size,
                    const char *target, struct err *e)
{
    char block[BLOCK] = {0};
    if (put_name(block, name, e))
        return -1;
    octal(block + 100, 7, kind == '2' ? 0777 : 0644);
    octal(block + 108, 7, 0);
    octal(block + 116, 7, 0);
    if (size < (INT64_C(1) << 33)) {
        octal(block + AT_SIZE, 11, size);
    } else { /* base-256: the first bit set, then big-endian */
        block[AT_SIZE] = (char)0x80;
        for (int i = 0; i < 8; i++)
            block[AT_SIZE + 11 - i] = (char)(size >> (8 * i) & 255);
    }
    octal(block + 136, 11, 0);
    block[AT_KIND] = kind;
    if (target && strlen(target) > 100)
        return err_set(e, "%s: the link's target is too long for an archive", name);
    if (target)
        memcpy(block + AT_TARGET, target, strlen(target));
    memcpy(block + 257, "ustar", 6);
    memcpy(block + 263, "00", 2);
    octal(block + AT_SUM, 6, checksum(block));
    block[AT_SUM + 6] = '\0';
    block[AT_SUM + 7] = ' ';
    return file_put(to, block, sizeof block, e);
}

static int put_pad(struct file_out *to, int64_t size, struct err *e)
{
    static const char zero[BLOCK];
    size_t over = (size_t)(size % BLOCK);
    return over ? file_put(to, zero, BLOCK - over, e) : 0;
}

int tar_put_bytes(struct file_out *to, const char *name, struct str bytes, struct err *e)
{
    if (put_head(to, name, '0', (int64_t)bytes.n, NULL, e) || file_puts(to, bytes, e))
        return -1;
    return put_pad(to, (int64_t)bytes.n, e);
}

int tar_put_file(struct file_out *to, const char *name, const char *path, struct err *e)
{
    struct file_map m;
    if (file_map(path, &m, e))
        return -1;
    struct str bytes = {(const char *)m.p, m.n};
    int rc = tar_put_bytes(to, name, bytes, e);
    file_unmap(&m);
    return rc;
}

int tar_put_link(struct file_out *to, const char *name, const char *target, struct err *e)
{
    return put_head(to, name, '2', 0, target, e);
}

int tar_end(struct file_out *to, struct err *e)
{
    static const char zero[2 * BLOCK];
    return file_put(to, zero, sizeof zero, e);
}

/* ---- reading ---------------------------------------------------------------------------------- */

int tar_open(struct tar *t, const char *path, struct err *e)
{
    *t = (struct tar){.s = stream_open(path, e), .path = path};
    return t->s ? 0 : -1;
}

void tar_close(struct tar *t)
{
    stream_close(t->s);
    *t = (struct tar){0};
}

/* Exactly n bytes. 1 got, 0 the end before the first, -1. */
static int whole(struct tar *t, char *p, size_t n, struct err *e)
{
    size_t got = 0;
    while (got < n) {
        ssize_t k = stream_read(t->s, p + got, n - got, e);
        if (k < 0)
            return -1;
        if (k == 0)
            return got ? err_set(e, "%s: the archive ends in the middle", t->path) : 0;
        got += (size_t)k;
    }
    return 1;
}

/* Octal digits with blanks around; -1 for anything else. */
static int64_t number(const char *at, int n)
{
    int64_t v = 0;
    int i = 0, digits = 0;
    if ((unsigned char)at[0] == 0x80) {
        for (int k = 1; k < n; k++) {
            if (v >> 55)
                return -1;
            v = v << 8 | (unsigned char)at[k];
        }
        return v;
    }
    while (i < n && at[i] == ' ')
        i++;
    for (; i < n && at[i] >= '0' && at[i] <= '7'; i++, digits++)
        v = v << 3 | (at[i] - '0');
    for (; i < n; i++)
        if (at[i] != ' ' && at[i] != '\0')
            return -1;
    return digits ? v : -1;
}

static void take_name(const char block[BLOCK], struct tar_entry *x)
{
    char name[101] = "", prefix[156] = "";
    memcpy(name, block, 100);
    if (memcmp(block + 257, "ustar\0", 6) == 0) /* GNU's own form has times there */
        memcpy(prefix, block + AT_PREFIX, 155);
    snprintf(x->name, sizeof x->name, "%s%s%s", prefix, prefix[0] ? "/" : "", name);
}

int tar_next(struct tar *t, struct tar_entry *x, struct err *e)
{
    char block[BLOCK], skip[4096];
    int64_t k;
    while ((k = tar_read(t, skip, sizeof skip, e)) > 0)
        ;
    if (k < 0 || (t->pad && whole(t, block, (size_t)t->pad, e) < 1))
        return -1;
    t->pad = 0;
    int got = whole(t, block, BLOCK, e);
    if (got < 0)
        return -1;
    bool zero = true;
    for (int i = 0; got && i < BLOCK; i++)
        zero = zero && !block[i];
    if (!got)
        return err_set(e, "%s: the archive has no end", t->path);
    if (zero)
        return 0;
    *x = (struct tar_entry){.kind = block[AT_KIND] ? block[AT_KIND] : '0',
                            .size = number(block + AT_SIZE, 12)};
    if (number(block + AT_SUM, 8) != checksum(block))
        return err_set(e, "%s: not an archive, or a damaged one", t->path);
    take_name(block, x);
    memcpy(x->target, block + AT_TARGET, 100);
    if (!tar_name_ok(x->name))
        return err_set(e, "%s: it holds a file that would lie elsewhere: \"%.100s\"", t->path,
                       x->name);
    if ((x->kind != '0' && x->kind != '2' && x->kind != '5') || x->size < 0 ||
        (x->kind != '0' && x->size))
        return err_set(e, "%s: %.100s is neither a file, a folder nor a link", t->path, x->name);
    t->left = x->size;
    t->pad = (BLOCK - x->size % BLOCK) % BLOCK;
    return 1;
}

int64_t tar_read(struct tar *t, void *p, size_t n, struct err *e)
{
    if ((int64_t)n > t->left)
        n = (size_t)t->left;
    if (!n)
        return 0;
    ssize_t k = stream_read(t->s, p, n, e);
    if (k == 0)
        return err_set(e, "%s: the archive ends in the middle", t->path);
    if (k > 0)
        t->left -= k;
    return k;
}

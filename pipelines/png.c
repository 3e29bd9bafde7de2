/* png: see png.h. Each row is the difference from the row above, which in a chart is mostly zeros; the
 * stream is one deflate block (RFC 1951) with the fixed codes, whose only matches repeat the last byte.
 */
#include "pipelines/png.h"

#include <stdint.h>
#include <string.h>

static uint32_t crc_byte(uint32_t crc, unsigned char b)
{
    crc ^= b;
    for (int k = 0; k < 8; k++)
        crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    return crc;
}

static void put_u32(struct buf *out, uint32_t v)
{
    char b[4] = {(char)(v >> 24), (char)(v >> 16), (char)(v >> 8), (char)v};
    buf_add(out, b, 4);
}

static void chunk(struct buf *out, const char type[5], const void *p, size_t n)
{
    uint32_t crc = 0xffffffffu;
    put_u32(out, (uint32_t)n);
    size_t at = out->n;
    buf_add(out, type, 4);
    buf_add(out, p, n);
    for (size_t i = at; i < out->n; i++)
        crc = crc_byte(crc, (unsigned char)out->p[i]);
    put_u32(out, ~crc);
}

/* ---- deflate ------------------------------------------------------------------------------------ */

struct bits {
    struct buf *out;
    uint64_t held;
    int n;
    uint32_t a, b; /* Adler-32 of what went in */
};

static void put_bits(struct bits *w, uint32_t v, int n) /* lowest bit first */
{
    w->held |= (uint64_t)v << w->n;
    for (w->n += n; w->n >= 8; w->n -= 8, w->held >>= 8)
        buf_addc(w->out, (char)(w->held & 255));
}

static void put_code(struct bits *w, uint32_t code, int n) /* Huffman codes: highest bit first */
{
    uint32_t r = 0;
    for (int i = 0; i < n; i++)
        r |= (code >> i & 1) << (n - 1 - i);
    put_bits(w, r, n);
}

/* The fixed code of a literal or length symbol, RFC 1951, 3.2.6. */
static void put_symbol(struct bits *w, uint32_t s)
{
    if (s < 144)
        put_code(w, 0x30 + s, 8);
    else if (s < 256)
        put_code(w, 0x190 + s - 144, 9);
    else if (s < 280)
        put_code(w, s - 256, 7);
    else
        put_code(w, 0xC0 + s - 280, 8);
}

/* Repeats the byte before `n` times, 3 <= n <= 258. */
static void put_repeat(struct bits *w, uint32_t n)
{
    if (n == 258) {
        put_symbol(w, 285);
    } else if (n <= 10) {
        put_symbol(w, 257 + n - 3);
    } else {
        int extra = 1; /* lengths of 2^extra at a time, four symbols each */
        while (n - 3 >= 8u << extra)
            extra++;
        put_symbol(w, 265 + 4 * (uint32_t)(extra - 1) + ((n - 3) >> extra) - 4);
        put_bits(w, (n - 3) & ((1u << extra) - 1), extra);
    }
    put_code(w, 0, 5); /* distance 1 */
}

static void deflate_bytes(struct bits *w, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t same = 1;
        while (i + same < n && same < 259 && p[i + same] == p[i])
            same++;
        put_symbol(w, p[i]);
        if (same > 3)
            put_repeat(w, (uint32_t)same - 1);
        else
            same = 1;
        for (size_t k = 0; k < same; k++) {
            w->a = (w->a + p[i]) % 65521;
            w->b = (w->b + w->a) % 65521;
        }
        i += same;
    }
}

void png_write(const unsigned char *rgb, size_t width, size_t height, struct buf *out)
{
    struct buf head = {0}, data = {0}, row = {0};
    struct bits w = {.out = &data, .a = 1};
    buf_add(out, "\x89PNG\r\n\x1a\n", 8);
    put_u32(&head, (uint32_t)width);
    put_u32(&head, (uint32_t)height);
    buf_add(&head, "\x08\x02\0\0\0", 5); /* 8 bits, RGB */
    chunk(out, "IHDR", head.p, head.n);
    buf_add(&data, "\x78\x01", 2);
    put_bits(&w, 3, 3); /* last block, fixed codes */
    for (size_t y = 0; y < height; y++) {
        const unsigned char *p = rgb + y * width * 3, *above = y ? p - width * 3 : NULL;
        buf_cut(&row, 0);
        buf_addc(&row, 2); /* filter: up */
        for (size_t i = 0; i < width * 3; i++)
            buf_addc(&row, (char)(p[i] - (above ? above[i] : 0)));
        deflate_bytes(&w, (const unsigned char *)row.p, row.n);
    }
    put_symbol(&w, 256);
    put_bits(&w, 0, w.n ? 8 - w.n : 0);
    put_u32(&data, w.b << 16 | w.a);
    chunk(out, "IDAT", data.p, data.n);
    chunk(out, "IEND", "", 0);
    buf_release(&head);
    buf_release(&data);
    buf_release(&row);
}

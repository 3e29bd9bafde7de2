/* few: products of few rows, as decoding has them. Their time is that of reading the weights once, so
 * what counts is how they are read.
 *
 * A core has few misses of its own under way (24 on Zen 4: about 15 GB/s); what reaches the rate of
 * memory is its prefetcher, which wants one stream of ascending addresses. So w is dense, and while a
 * tile is computed the tile (or block) behind it is asked for in the order of its addresses, into the
 * second level of cache where the rows of x would not leave it room in the first. Measured on Zen 4:
 * 23 to 28 GB/s against 14 without, where a loop that only reads gets 30.
 *
 * An element of y is one chain of additions in the order of k (of its lanes, then their sum), whatever
 * tile it falls into: its bits depend on k and the level, not on the rows beside it.
 */
#include "trainer/cpu/vec/kernels.h"

/* Rows of x in a tile, and registers of w beside each other for 1, 2, 4 and 8 of them: the sums fill
 * most of the registers. */
#define MOST_v2      4
#define MOST_v3      4
#define MOST_v4      8
#define MOST_generic 4
#define MOST         VEC_PASTE(MOST, ISA)
enum { WIDE_1 = MOST == 8 ? 16 : 12, WIDE_2 = MOST == 8 ? 8 : 6, WIDE_4 = MOST == 8 ? 6 : 3 };
enum { WIDE_8 = 3, SOME = 4 }; /* SOME: narrower tiles of one row */
/* Rows of w in a block. A single row of x costs so little beside w that each row of w is a block: then
 * the reading itself is one stream, and AHEAD bytes before it the prefetching. */
enum { BLOCK = 16, LINE = 64, AHEAD = 32768 };

#define UNROLL _Pragma("GCC unroll 32")

typedef float V4 __attribute__((vector_size(16), may_alias));
typedef uint32_t VU __attribute__((vector_size(LANES * 4)));
typedef uint16_t VH_IN_MEMORY __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

__attribute__((always_inline)) static inline VF weights(const char *w, bool bf16)
{
    if (bf16)
        return (VF)(__builtin_convertvector(*(const VH_IN_MEMORY *)w, VU) << 16);
    return LOAD((const float *)(const void *)w);
}

static float weight(const char *w, bool bf16)
{
    union {
        uint32_t u;
        float f;
    } v;
    if (!bf16)
        return *(const float *)(const void *)w;
    v.u = (uint32_t) * (const uint16_t *)(const void *)w << 16;
    return v.f;
}

/* The smallest tile that holds m rows, at most MOST. */
static int tile_rows(int64_t m)
{
    return m > 4 ? MOST : m > 2 ? 4 : (int)m;
}

/* ---- y = x w, w [k, n] ---------------------------------------------------------------------- */

/* One tile: live rows of x, turned ([k][rows], zeros behind the live ones), against k rows of w. */
struct in_out {
    const float *x;
    const char *w, *ahead;
    int64_t k, live, row, ldy; /* row: bytes of a row of w */
    bool first;                /* nothing in y yet */
    float *y;
};

__attribute__((always_inline)) static inline void in_out_tile(const struct in_out *t, int rows,
                                                              int width, bool bf16)
{
    const int each = LANES * (bf16 ? 2 : 4);
    const char *w = t->w, *ahead = t->ahead;
    const float *x = t->x;
    VF s[8][16];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < width; j++) s[i][j] =
        t->first || i >= t->live ? SPLAT(0) : LOAD(t->y + i * t->ldy + j * LANES);
    for (int64_t l = 0; l < t->k; l++, w += t->row, x += rows, ahead += width * each) {
        VF r[16];
        UNROLL for (int j = 0; j < width; j++) r[j] = weights(w + j * each, bf16);
        UNROLL for (int at = 0; at < width * each; at += LINE) __builtin_prefetch(ahead + at, 0, 2);
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < width; j++) s[i][j] +=
            x[i] * r[j];
    }
    UNROLL for (int i = 0; i < rows; i++) if (i < t->live) UNROLL for (int j = 0; j < width; j++)
        STORE(t->y + i * t->ldy + j * LANES, s[i][j]);
}

/* The widest tile for so many rows. */
static int in_out_wide(const struct in_out *t, int rows, bool bf16)
{
    if (rows == 1 && bf16)
        in_out_tile(t, 1, WIDE_1, true);
    else if (rows == 1)
        in_out_tile(t, 1, WIDE_1, false);
    else if (rows == 2 && bf16)
        in_out_tile(t, 2, WIDE_2, true);
    else if (rows == 2)
        in_out_tile(t, 2, WIDE_2, false);
    else if (rows == 4 && bf16)
        in_out_tile(t, 4, WIDE_4, true);
    else if (rows == 4)
        in_out_tile(t, 4, WIDE_4, false);
    else if (MOST == 8 && bf16)
        in_out_tile(t, 8, WIDE_8, true);
    else if (MOST == 8)
        in_out_tile(t, 8, WIDE_8, false);
    return rows == 1 ? WIDE_1 : rows == 2 ? WIDE_2 : rows == 4 ? WIDE_4 : WIDE_8;
}

/* SOME registers of one row, else one register. */
static int in_out_narrow(const struct in_out *t, int rows, int64_t columns, bool bf16)
{
    bool some = rows == 1 && columns >= SOME * LANES;
    if (some && bf16)
        in_out_tile(t, 1, SOME, true);
    else if (some)
        in_out_tile(t, 1, SOME, false);
    else if (rows == 1)
        in_out_tile(t, 1, 1, bf16);
    else if (rows == 2)
        in_out_tile(t, 2, 1, bf16);
    else if (rows == 4)
        in_out_tile(t, 4, 1, bf16);
    else if (MOST == 8)
        in_out_tile(t, 8, 1, bf16);
    return some ? SOME : 1;
}

/* Columns that fill no register. */
static void in_out_rest(const struct in_out *t, int rows, int64_t columns, bool bf16)
{
    for (int64_t i = 0; i < t->live; i++)
        for (int64_t j = 0; j < columns; j++) {
            float *y = t->y + i * t->ldy + j, s = t->first ? 0 : *y;
            for (int64_t l = 0; l < t->k; l++)
                s += t->x[l * rows + i] * weight(t->w + l * t->row + j * (bf16 ? 2 : 4), bf16);
            *y = s;
        }
}

/* All columns of one block of w for a group of rows. */
static void in_out_block(struct in_out t, int rows, int64_t n, bool bf16)
{
    int wide = rows == 1 ? WIDE_1 : rows == 2 ? WIDE_2 : rows == 4 ? WIDE_4 : WIDE_8;
    for (int64_t j = 0; j < n;) {
        int took;
        if (j + wide * LANES <= n)
            took = in_out_wide(&t, rows, bf16);
        else if (j + LANES <= n)
            took = in_out_narrow(&t, rows, n - j, bf16);
        else {
            in_out_rest(&t, rows, n - j, bf16);
            return;
        }
        int64_t bytes = (int64_t)took * LANES * (bf16 ? 2 : 4);
        t.w += bytes;
        t.ahead += bytes * t.k;
        t.y += took * LANES;
        j += took * LANES;
    }
}

/* y += x w, or y = x w, for one row of w: `width` registers at a time, from column *j on. */
__attribute__((always_inline)) static inline void in_out_add(const struct in_out *t, int64_t n,
                                                             int width, bool bf16, int64_t *j)
{
    const int each = LANES * (bf16 ? 2 : 4);
    const float x = *t->x;
    for (; *j + width * LANES <= n; *j += width * LANES) {
        const char *w = t->w + *j * (bf16 ? 2 : 4);
        UNROLL for (int at = 0; at < width * each; at += LINE)
            __builtin_prefetch(w + AHEAD + at, 0, 2);
        UNROLL for (int i = 0; i < width; i++)
        {
            VF s = t->first ? SPLAT(0) : LOAD(t->y + *j + i * LANES);
            s += x * weights(w + i * each, bf16);
            STORE(t->y + *j + i * LANES, s);
        }
    }
}

/* Each row of w a block of its own. */
static void in_out_row(const struct vec_few *p)
{
    const int size = p->bf16 ? 2 : 4;
    struct in_out t = {.x = p->x, .w = p->w, .k = 1, .live = 1, .first = true, .y = p->y};
    for (int64_t l = 0; l < p->k; l++, t.x++, t.w += p->n * size, t.first = false) {
        int64_t j = 0;
        if (p->bf16) {
            in_out_add(&t, p->n, SOME, true, &j);
            in_out_add(&t, p->n, 1, true, &j);
        } else {
            in_out_add(&t, p->n, SOME, false, &j);
            in_out_add(&t, p->n, 1, false, &j);
        }
        for (; j < p->n; j++) {
            float s = t.first ? 0 : t.y[j];
            t.y[j] = s + *t.x * weight(t.w + j * size, p->bf16);
        }
    }
}

void VEC(vec_few_in_out)(const struct vec_few *p)
{
    const int64_t row = p->n * (p->bf16 ? 2 : 4);
    float x[BLOCK * 8];
    if (p->m == 1 && p->n > WIDE_1 * LANES) { /* else the sums stay in registers below */
        in_out_row(p);
        return;
    }
    for (int64_t l = 0; l < p->k; l += BLOCK)
        for (int64_t i = 0; i < p->m; i += MOST) {
            int64_t k = p->k - l < BLOCK ? p->k - l : BLOCK;
            int64_t live = p->m - i < MOST ? p->m - i : MOST;
            int rows = tile_rows(live);
            for (int64_t a = 0; a < k; a++)
                for (int r = 0; r < rows; r++)
                    x[a * rows + r] = r < live ? p->x[(i + r) * p->ldx + l + a] : 0;
            const char *w = (const char *)p->w + l * row;
            struct in_out t = {.x = x,
                               .w = w,
                               .ahead = w + k * row,
                               .k = k,
                               .live = live,
                               .row = row,
                               .ldy = p->ldy,
                               .first = l == 0,
                               .y = p->y + i * p->ldy};
            in_out_block(t, rows, p->n, p->bf16);
        }
}

/* ---- y = x w^T, w [n, k] -------------------------------------------------------------------- */

enum { OUTS_1 = 4, OUTS_2 = 4, OUTS_4 = MOST == 8 ? 6 : 3, OUTS_8 = 3 };

/* One tile: x turned for it, [k / LANES][rows][LANES] with zeros behind the live rows. */
struct out_in {
    const float *x, *rest; /* rest: the rows as they are */
    const char *w;
    int64_t k, live, ldx, ldy;
    float *y;
};

/* The sums of the lanes of four registers. */
__attribute__((always_inline)) static inline void fold_four(const VF *v, float *sum)
{
    float t[LANES];
    V4 q[4];
    UNROLL for (int i = 0; i < 4; i++)
    {
        STORE(t, v[i]);
        q[i] = *(const V4 *)(const void *)t;
        UNROLL for (int j = 4; j < LANES; j += 4) q[i] += *(const V4 *)(const void *)(t + j);
    }
    V4 a = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5) +
           __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7);
    V4 b = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5) +
           __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
    *(V4 *)(void *)sum =
        __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
}

/* What of k fills no register: sum += x w. */
static void out_in_rest(const struct out_in *t, int outs, const float *sum, bool bf16)
{
    const int size = bf16 ? 2 : 4;
    for (int64_t i = 0; i < t->live; i++)
        for (int o = 0; o < outs; o++) {
            float v = sum[i * outs + o];
            for (int64_t l = t->k / LANES * LANES; l < t->k; l++)
                v += t->rest[i * t->ldx + l] * weight(t->w + (o * t->k + l) * size, bf16);
            t->y[i * t->ldy + o] = v;
        }
}

/* rows x outs elements of y. The next tile is asked for meanwhile. */
__attribute__((always_inline)) static inline void out_in_tile(const struct out_in *t, int rows,
                                                              int outs, bool bf16)
{
    const int size = bf16 ? 2 : 4, each = LANES * size;
    const char *w = t->w, *ahead = t->w + outs * t->k * size;
    const float *x = t->x;
    VF s[32];
    float sum[32];
    UNROLL for (int i = 0; i < (rows * outs + 3) / 4 * 4; i++) s[i] = SPLAT(0);
    for (int64_t l = t->k / LANES; l > 0; l--, w += each, ahead += outs * each, x += rows * LANES) {
        VF r[8];
        UNROLL for (int o = 0; o < outs; o++) r[o] = weights(w + o * t->k * size, bf16);
        UNROLL for (int at = 0; at < outs * each; at += LINE) if (rows <= 2)
            __builtin_prefetch(ahead + at, 0, 3);
        else __builtin_prefetch(ahead + at, 0, 2);
        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int o = 0; o < outs; o++)
            s[i * outs + o] += LOAD(x + i * LANES) * r[o];
    }
    UNROLL for (int i = 0; i < rows * outs; i += 4) fold_four(s + i, sum + i);
    out_in_rest(t, outs, sum, bf16);
}

static void out_in_wide(const struct out_in *t, int rows, bool bf16)
{
    if (rows == 1 && bf16)
        out_in_tile(t, 1, OUTS_1, true);
    else if (rows == 1)
        out_in_tile(t, 1, OUTS_1, false);
    else if (rows == 2 && bf16)
        out_in_tile(t, 2, OUTS_2, true);
    else if (rows == 2)
        out_in_tile(t, 2, OUTS_2, false);
    else if (rows == 4 && bf16)
        out_in_tile(t, 4, OUTS_4, true);
    else if (rows == 4)
        out_in_tile(t, 4, OUTS_4, false);
    else if (MOST == 8 && bf16)
        out_in_tile(t, 8, OUTS_8, true);
    else if (MOST == 8)
        out_in_tile(t, 8, OUTS_8, false);
}

static void out_in_one(const struct out_in *t, int rows, bool bf16)
{
    if (rows == 1)
        out_in_tile(t, 1, 1, bf16);
    else if (rows == 2)
        out_in_tile(t, 2, 1, bf16);
    else if (rows == 4)
        out_in_tile(t, 4, 1, bf16);
    else if (MOST == 8)
        out_in_tile(t, 8, 1, bf16);
}

static void turn(float *to, const float *x, int64_t ldx, int rows, int64_t live, int64_t k)
{
    for (int64_t l = 0; l + LANES <= k; l += LANES)
        for (int i = 0; i < rows; i++, to += LANES)
            STORE(to, i < live ? LOAD(x + i * ldx + l) : SPLAT(0));
}

/* Groups of rows behind the first have the same tiles: w is in cache. */
void VEC(vec_few_out_in)(const struct vec_few *p)
{
    const int rows = tile_rows(p->m < MOST ? p->m : MOST);
    const int wide = rows == 1 ? OUTS_1 : rows == 2 ? OUTS_2 : rows == 4 ? OUTS_4 : OUTS_8;
    for (int64_t i = 0; i < p->m; i += MOST)
        turn(p->room + i * p->k, p->x + i * p->ldx, p->ldx, rows, p->m - i, p->k);
    for (int64_t o = 0, took; o < p->n; o += took) {
        took = o + wide <= p->n ? wide : 1;
        for (int64_t i = 0; i < p->m; i += MOST) {
            struct out_in t = {.x = p->room + i * p->k,
                               .rest = p->x + i * p->ldx,
                               .w = (const char *)p->w + o * p->k * (p->bf16 ? 2 : 4),
                               .k = p->k,
                               .live = p->m - i < MOST ? p->m - i : MOST,
                               .ldx = p->ldx,
                               .ldy = p->ldy,
                               .y = p->y + i * p->ldy + o};
            (took == wide ? out_in_wide : out_in_one)(&t, rows, p->bf16);
        }
    }
}

/* mm: small matrix products for attention, where a call into a library costs more than the work.
 *
 * The classic outer-product kernel: ROWS x 2 registers of C stay in registers while k runs, one row
 * of B is loaded and each element of A broadcast (Goto and van de Geijn, "Anatomy of
 * high-performance matrix multiplication", 2008). Each element of C is one chain of additions in
 * the order of k, whatever the tile it falls into.
 */
#include "trainer/cpu/vec/kernels.h"

#define ROWS_v2      4
#define ROWS_v3      4
#define ROWS_v4      8
#define ROWS_generic 4
#define ROWS         VEC_PASTE(ROWS, ISA)

struct tile {
    int64_t k, ai, al, ldb, ldc;
    bool accumulate;
};

/* rows (a constant where it is inlined) x (width * LANES) of C. */
__attribute__((always_inline)) static inline void
tile_run(const struct tile *t, int rows, int width, const float *a, const float *b, float *c)
{
    VF s[ROWS][2];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < width; j++)
            s[i][j] = t->accumulate ? LOAD(c + i * t->ldc + j * LANES) : SPLAT(0);
    for (int64_t l = 0; l < t->k; l++) {
        VF r[2];
        for (int j = 0; j < width; j++)
            r[j] = LOAD(b + l * t->ldb + j * LANES);
        for (int i = 0; i < rows; i++) {
            VF x = SPLAT(a[i * t->ai + l * t->al]);
            for (int j = 0; j < width; j++)
                s[i][j] += x * r[j];
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < width; j++)
            STORE(c + i * t->ldc + j * LANES, s[i][j]);
}

static void tile_2(const struct tile *t, const float *a, const float *b, float *c)
{
    tile_run(t, ROWS, 2, a, b, c);
}

static void tile_1(const struct tile *t, const float *a, const float *b, float *c)
{
    tile_run(t, ROWS, 1, a, b, c);
}

static void row_2(const struct tile *t, const float *a, const float *b, float *c)
{
    tile_run(t, 1, 2, a, b, c);
}

static void row_1(const struct tile *t, const float *a, const float *b, float *c)
{
    tile_run(t, 1, 1, a, b, c);
}

void VEC(vec_mm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t ai, int64_t al,
                 const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc)
{
    const struct tile t = {k, ai, al, ldb, ldc, accumulate};
    for (int64_t j = 0; j < n;) {
        bool two = j + 2 * LANES <= n;
        int64_t i = 0;
        for (; i + ROWS <= m; i += ROWS)
            (two ? tile_2 : tile_1)(&t, a + i * ai, b + j, c + i * ldc + j);
        for (; i < m; i++)
            (two ? row_2 : row_1)(&t, a + i * ai, b + j, c + i * ldc + j);
        j += two ? 2 * LANES : LANES;
    }
}

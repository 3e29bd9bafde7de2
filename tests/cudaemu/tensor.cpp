/* tensor: tensor-core products, ldmatrix and asynchronous copies as warp collectives.
 *
 * Fragments as in the PTX manual ("Matrix Fragments for mma.m16n8k16 with floating point type"):
 * with g = lane / 4 and t = lane % 4, a lane holds of A the pairs (row g, k 2t), (g + 8, 2t),
 * (g, 2t + 8), (g + 8, 2t + 8); of B the pairs (k 2t, column g), (2t + 8, g); of C and D the pairs
 * (g, 2t), (g + 8, 2t). Sums are f32, in the order of k; a device adds in an order of its own.
 */
#include "tests/cudaemu/emu.hpp"

#include <vector>

namespace emu
{

static float of_bits(uint16_t bits, bool half)
{
    if (half) {
        __half_raw r;
        r.x = bits;
        return __half2float(__half(r));
    }
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return f;
}

struct Fragment { /* what a lane brings: 40 bytes; the product goes into d */
    uint32_t a[4], b[2];
    float c[4];
};
static_assert(sizeof(Fragment) <= SLOT - 16, "the result lies behind the fragment");
enum { RESULT = 48 };

static void multiply(unsigned char (*slot)[SLOT], bool half)
{
    float a[16][16], b[16][8], c[16][8];
    for (int lane = 0; lane < 32; lane++) {
        Fragment f;
        memcpy(&f, slot[lane], sizeof f);
        int g = lane / 4, t = lane % 4;
        for (int r = 0; r < 4; r++)
            for (int i = 0; i < 2; i++)
                a[g + r % 2 * 8][2 * t + r / 2 * 8 + i] =
                    of_bits((uint16_t)(f.a[r] >> 16 * i), half);
        for (int r = 0; r < 2; r++)
            for (int i = 0; i < 2; i++)
                b[2 * t + r * 8 + i][g] = of_bits((uint16_t)(f.b[r] >> 16 * i), half);
        for (int r = 0; r < 4; r++)
            c[g + r / 2 * 8][2 * t + r % 2] = f.c[r];
    }
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++)
                c[i][j] += a[i][k] * b[k][j];
    for (int lane = 0; lane < 32; lane++) {
        float d[4];
        for (int r = 0; r < 4; r++)
            d[r] = c[lane / 4 + r / 2 * 8][2 * (lane % 4) + r % 2];
        memcpy(slot[lane] + RESULT, d, sizeof d);
    }
}

static void multiply_bf16(unsigned char (*slot)[SLOT], unsigned)
{
    multiply(slot, false);
}
static void multiply_f16(unsigned char (*slot)[SLOT], unsigned)
{
    multiply(slot, true);
}

void mma_16816(float *d, const uint32_t *a, const uint32_t *b, const float *c, bool half,
               const char *file, int line)
{
    Fragment f;
    memcpy(f.a, a, sizeof f.a);
    memcpy(f.b, b, sizeof f.b);
    memcpy(f.c, c, sizeof f.c);
    unsigned char(*slot)[SLOT] = exchange(
        0xffffffffu, &f, sizeof f, half ? multiply_f16 : multiply_bf16, "mma.m16n8k16", file, line);
    memcpy(d, slot[thread->lane] + RESULT, 4 * sizeof *d);
}

void ldmatrix_x4(uint32_t *r, const void *row, bool transposed, const char *file, int line)
{
    if ((uintptr_t)row & 15)
        fail("%s:%d: ldmatrix: the row at %p is not aligned to 16 bytes", file, line, row);
    watch(row, 16, false, false, __builtin_return_address(0));
    unsigned char(*slot)[SLOT] =
        exchange(0xffffffffu, &row, sizeof row, nullptr, "ldmatrix", file, line);
    unsigned lane = thread->lane;
    for (unsigned m = 0; m < 4; m++) {
        uint32_t pair = 0;
        for (unsigned i = 0; i < 2; i++) {
            unsigned at_row = transposed ? 2 * (lane % 4) + i : lane / 4;
            unsigned at_column = transposed ? lane / 4 : 2 * (lane % 4) + i;
            const uint16_t *p;
            memcpy(&p, slot[m * 8 + at_row], sizeof p);
            pair |= (uint32_t)p[at_column] << 16 * i;
        }
        r[m] = pair;
    }
}

/* ---- cp.async: it arrives at the wait for its group, as late as it may, or with seeds 3, 7, 11...
 * at once, as early as it may ---- */

struct Copy {
    void *to;
    const void *from;
    int bytes, valid, group;
};
struct Queue {
    std::vector<Copy> copies;
    int group;
};
static std::vector<Queue> queues(1024); /* by the thread's number in its block */
static bool used;

static void arrive(const Copy &c)
{
    if (c.valid)
        memcpy(c.to, c.from, (size_t)c.valid);
    memset((char *)c.to + c.valid, 0, (size_t)(c.bytes - c.valid));
}

static Queue &queue_of_thread()
{
    unsigned at =
        thread->index.x + block->threads.x * (thread->index.y + block->threads.y * thread->index.z);
    return queues[at];
}

void cp_async(void *shared, const void *global, int bytes, int valid)
{
    if (((uintptr_t)shared | (uintptr_t)global) & (uintptr_t)(bytes - 1))
        fail("cp.async: %p or %p is not aligned to %d bytes", shared, global, bytes);
    /* It may arrive at any time until the wait. */
    const void *pc = __builtin_return_address(0);
    watch(global, (size_t)valid, false, false, pc);
    watch(shared, (size_t)bytes, true, false, pc);
    Queue &q = queue_of_thread();
    q.copies.push_back(Copy{shared, global, bytes, valid, q.group});
    used = true;
    if (early_copies())
        arrive(q.copies.back());
}

void cp_commit()
{
    queue_of_thread().group++;
    used = true;
}

void cp_wait(int newest)
{
    Queue &q = queue_of_thread();
    int before = q.group - newest;
    size_t kept = 0;
    for (const Copy &c : q.copies) {
        if (c.group >= before) {
            q.copies[kept++] = c;
            continue;
        }
        if (!early_copies())
            arrive(c);
        watch(c.to, (size_t)c.bytes, true, false, __builtin_return_address(0));
    }
    q.copies.resize(kept);
}

size_t cp_pending()
{
    return used ? queue_of_thread().copies.size() : 0;
}

void cp_forget()
{
    if (!used)
        return;
    for (Queue &q : queues) {
        q.copies.clear();
        q.group = 0;
    }
    used = false;
}

} // namespace emu

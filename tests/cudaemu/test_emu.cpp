/* test_emu: the emulator itself: does it do what CUDA says, and does it notice what is wrong?
 *
 * Every planted bug of bugs.cu runs twice in a child process: with the bug, where the child must end
 * with the sentence that names it (or with NaN where that is the alarm), and without, where it must
 * be silent.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <csignal>
#include <sys/wait.h>

#include "tests/cudaemu/bugs.hpp"
#include "tests/tap.h"

enum { N = 64 };

/* Runs f in a child; its stderr comes back in text. Returns whether it ended normally. */
template <class F> static bool in_child(char *text, size_t n, F f)
{
    int pipes[2], status = 0;
    if (pipe(pipes) != 0)
        return false;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 2);
        close(pipes[0]);
        f();
        _exit(0);
    }
    close(pipes[1]);
    size_t at = 0;
    for (ssize_t got; at + 1 < n && (got = read(pipes[0], text + at, n - 1 - at)) > 0;)
        at += (size_t)got;
    text[at] = 0;
    close(pipes[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Under `make asan` the sanitizers speak first, in their own words. */
static bool sanitizer(const char *text)
{
    return strstr(text, "AddressSanitizer") || strstr(text, "runtime error");
}

/* out of a run of a bug kernel; says NaN on stderr when the output has one. */
static void run_bug(const char *name, int bug, const char *seed)
{
    float *out, host[N];
    setenv("CUEMU_SEED", seed, 1);
    cudaMalloc((void **)&out, N * sizeof *out);
    cudaMemset(out, 0, N * sizeof *out);
    bug_launch(name, out, bug, 0);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    for (float v : host)
        if (v != v) {
            fprintf(stderr, "NaN\n");
            return;
        }
    if (strcmp(name, "waits_too_little") == 0 && host[3] == 5)
        fprintf(stderr, "stale\n");
    if (strcmp(name, "no_tail_barrier") == 0)
        for (int i = 0; i < N; i++) {
            float want = 4 * 300;
            for (int k = 0; k < 4; k++)
                want += (float)(3 * ((i + 32 + k) % N));
            if (host[i] != want) {
                fprintf(stderr, "wrong\n");
                return;
            }
        }
    if (strcmp(name, "reverse") == 0)
        for (int i = 0; i < N; i++)
            if (host[i] != (float)(N - 1 - i)) {
                fprintf(stderr, "wrong\n");
                return;
            }
}

static void test_bugs()
{
    static const struct {
        const char *name, *said, *what, *or_said; /* what is said depends on who comes first */
    } bugs[] = {
        {"reverse", "NaN", "a missing barrier reads unwritten shared memory", nullptr},
        {"write_behind_shared", "behind a shared array", "a write behind a shared array", nullptr},
        {"write_behind_dynamic", "behind a shared array", "a write behind dynamic shared memory",
         nullptr},
        {"write_behind_global", "behind device memory of 256", "a write behind device memory",
         nullptr},
        {"wild_read", "wild access", "a read behind device memory", nullptr},
        {"unwritten_shared", "NaN", "shared memory read before it is written", nullptr},
        {"two_barriers", "reached while other threads wait", "a barrier in divergent branches",
         nullptr},
        {"absent_lanes", "deadlock", "a shuffle that half of a warp never reaches",
         "lanes that ended"},
        {"ended_lanes", "lanes that ended", "a shuffle with lanes that ended", "deadlock"},
        {"lane_outside_mask", "not in mask", "a shuffle by a lane outside of its mask", nullptr},
        {"no_wait", "not waited for", "an asynchronous copy that nobody waits for", nullptr},
        {"waits_too_little", "stale", "a wait for the wrong group", nullptr},
        {"crooked_rows", "not aligned", "ldmatrix with rows off their border", nullptr},
    };
    char text[4096];
    for (const auto &b : bugs)
        for (const char *seed : {"0", "1", "5"}) {
            bool clean = in_child(text, sizeof text, [&] { run_bug(b.name, 0, seed); });
            CHECK(clean && !*text, "%s, seed %s: silent without the bug %s", b.name, seed, text);
            in_child(text, sizeof text, [&] { run_bug(b.name, 1, seed); });
            CHECK(strstr(text, b.said) || (b.or_said && strstr(text, b.or_said)) || sanitizer(text),
                  "caught with seed %s: %s", seed, b.what);
        }
}

/* What warps read together shows only when one of them runs far ahead. */
static void test_greedy()
{
    char text[4096];
    for (const char *seed : {"1", "5", "7"}) {
        in_child(text, sizeof text, [&] { run_bug("no_tail_barrier", 0, seed); });
        CHECK(!*text, "no_tail_barrier, seed %s: silent without the bug %s", seed, text);
        in_child(text, sizeof text, [&] { run_bug("no_tail_barrier", 1, seed); });
        CHECK_STR(text, "wrong\n", "caught with seed %s: shared memory written too early", seed);
    }
}

static void test_misuse()
{
    char text[4096];
    in_child(text, sizeof text, [] {
        float host[N];
        bug_launch("plain", host, 0, 0);
    });
    CHECK(strstr(text, "no device pointer"), "a host pointer given to a kernel");
    in_child(text, sizeof text, [] {
        float *d, h[4];
        cudaMalloc((void **)&d, sizeof h);
        cudaMemcpy(h, d, sizeof h, cudaMemcpyHostToDevice);
    });
    CHECK(strstr(text, "the direction is"), "a copy in the wrong direction");
    in_child(text, sizeof text, [] {
        setenv("CUEMU_DEVICES", "2", 1);
        float *d;
        cudaMalloc((void **)&d, N * sizeof *d);
        cudaSetDevice(1);
        bug_launch("plain", d, 0, 0);
    });
    CHECK(strstr(text, "memory of device 0"), "memory of another device given to a kernel");
    in_child(text, sizeof text, [] {
        setenv("CUEMU_GUARD", "1", 1);
        float *d;
        cudaMalloc((void **)&d, N * sizeof *d);
        bug_launch("plain", d, 0, 0);
        *(volatile float *)d = 1;
    });
    CHECK(strstr(text, "the host touches") || sanitizer(text), "the host writing to device memory");
}

/* Lazy streams: work runs only when somebody waits, so a missing wait shows. */
static void test_lazy()
{
    for (int waits = 0; waits < 2; waits++) {
        char text[64];
        in_child(text, sizeof text, [&] {
            setenv("CUEMU_LAZY", "1", 1);
            cudaStream_t a, b;
            cudaEvent_t e;
            float *x, *page, host[N];
            cudaMalloc((void **)&x, sizeof host);
            cudaMallocHost((void **)&page, sizeof host);
            cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
            cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
            cudaEventCreate(&e);
            cudaMemsetAsync(x, 0, sizeof host, a);
            cudaStreamSynchronize(a);
            fill_launch(x, 3, a);
            cudaEventRecord(e, a);
            if (waits)
                cudaStreamWaitEvent(b, e, 0);
            cudaMemcpyAsync(page, x, sizeof host, cudaMemcpyDeviceToHost, b);
            cudaStreamSynchronize(b);
            fprintf(stderr, "%g", (double)page[5]);
        });
        CHECK_STR(text, waits ? "3" : "0", "lazy streams: %s",
                  waits ? "an event orders two streams" : "a missing wait shows");
    }
}

template <class T> static T *to_device(const T *host, size_t n)
{
    T *d;
    cudaMalloc((void **)&d, n * sizeof *d);
    cudaMemcpy(d, host, n * sizeof *d, cudaMemcpyHostToDevice);
    return d;
}
template <class T> static void to_host(T *host, const T *d, size_t n)
{
    cudaMemcpy(host, d, n * sizeof *d, cudaMemcpyDeviceToHost);
}

static void test_order()
{
    int seen[3][16], zeros[17] = {0};
    for (int seed = 0; seed < 3; seed++) {
        char text[8];
        snprintf(text, sizeof text, "%d", seed);
        setenv("CUEMU_SEED", text, 1);
        int *d = to_device(zeros, 17);
        order_launch(d, d + 16, 0);
        to_host(seen[seed], d, 16);
        cudaFree(d);
    }
    unsetenv("CUEMU_SEED");
    bool forward = true, backward = true, once = true;
    for (int i = 0; i < 16; i++) {
        forward = forward && seen[0][i] == i;
        backward = backward && seen[1][i] == 15 - i;
        int count = 0;
        for (int k = 0; k < 16; k++)
            count += seen[2][k] == i;
        once = once && count == 1;
    }
    CHECK(forward, "seed 0 runs blocks and threads forward");
    CHECK(backward, "seed 1 runs them backward");
    CHECK(once && memcmp(seen[2], seen[0], sizeof seen[0]) != 0, "seed 2 shuffles them");
}

static void test_collectives()
{
    int host[192] = {0};
    int *d = to_device(host, 192);
    collectives_launch(d, 0);
    to_host(host, d, 192);
    bool xor_ok = true, down = true, up = true, index = true, vote = true;
    unsigned ballot = 0;
    for (int i = 0; i < 32; i += 3)
        ballot |= 1u << i;
    for (int i = 0; i < 32; i++) {
        xor_ok = xor_ok && host[i] == (i ^ 5);
        down = down && host[32 + i] == (i % 8 + 3 < 8 ? i + 3 : i);
        up = up && host[64 + i] == (i % 8 >= 3 ? i - 3 : i);
        index = index && host[96 + i] == i / 16 * 16 + 9;
        vote = vote && (unsigned)host[128 + i] == ballot && host[160 + i] == 1;
    }
    CHECK(xor_ok && down && up && index, "shuffles: xor, down, up and index with widths");
    CHECK(vote, "ballot, any and all");
    cudaFree(d);
}

template <class T> static void test_product(const char *name, bool bf16)
{
    T a[256], b[128];
    float d[128];
    bool same = true;
    for (int i = 0; i < 256; i++)
        a[i] = T((float)(i * 7 % 23 - 11));
    for (int i = 0; i < 128; i++)
        b[i] = T((float)(i * 5 % 19 - 9));
    T *da = to_device(a, 256), *db = to_device(b, 128);
    float *dd = to_device(d, 128);
    if (bf16)
        product_bf16_launch(dd, da, db, 0);
    else
        product_f16_launch(dd, da, db, 0);
    to_host(d, dd, 128);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            float want = 0;
            for (int k = 0; k < 16; k++)
                want += (float)a[i * 16 + k] * (float)b[j * 16 + k];
            same = same && d[i * 8 + j] == want;
        }
    CHECK(same, "%s: ldmatrix and mma multiply integers exactly", name);
}

static void test_turn()
{
    uint16_t in[256], out[256] = {0};
    bool same = true;
    for (int i = 0; i < 256; i++)
        in[i] = (uint16_t)i;
    uint16_t *di = to_device(in, 256), *dout = to_device(out, 256);
    turn_launch(dout, di, 0);
    to_host(out, dout, 256);
    for (int m = 0; m < 4; m++)
        for (int i = 0; i < 64; i++)
            same = same && out[m * 64 + i] == in[m * 64 + i % 8 * 8 + i / 8];
    CHECK(same, "ldmatrix.trans turns each 8 x 8 matrix");
}

static void test_memory()
{
    float *p = nullptr, host[4];
    size_t before, after, total;
    cudaMemGetInfo(&before, &total);
    CHECK(cudaMalloc((void **)&p, (size_t)1 << 60) == cudaErrorMemoryAllocation && !p,
          "memory that is not there is refused");
    cudaGetLastError();
    cudaMalloc((void **)&p, 4096);
    cudaMemGetInfo(&after, &total);
    to_host(host, p, 4);
    CHECK(before - after == 4096, "free memory counts allocations");
    CHECK(host[0] != host[0] && ((uintptr_t)p & 255) == 0, "fresh memory is NaN, on 256 bytes");
    cudaFree(p);
    cudaMemGetInfo(&after, &total);
    CHECK(before == after, "and what is given back");
    setenv("CUEMU_DRIVER", "12000", 1);
    int n;
    CHECK(cudaGetDeviceCount(&n) == cudaErrorInsufficientDriver, "an old driver can be played");
    unsetenv("CUEMU_DRIVER");
    cudaGetLastError();
}

int main()
{
    test_order();
    test_collectives();
    test_product<__nv_bfloat16>("bf16", true);
    test_product<__half>("fp16", false);
    test_turn();
    test_memory();
    test_lazy();
    test_misuse();
    test_greedy();
    test_bugs();
    return tap_done();
}

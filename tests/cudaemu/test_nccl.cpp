/* test_nccl: the emulated NCCL: does it sum, and does it notice what NCCL would answer with a hang or
 * with rubbish? Ranks are children of this process; each bug runs with and without itself.
 */
#include <cuda_runtime.h>

#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "tests/cudaemu/emu.hpp"
#include "tests/cudaemu/nccl.hpp"
#include "tests/tap.h"

enum { N = 1000, RANKS = 2 };

/* What a rank has: two buffers on its device, filled with rank + 1, and two streams. */
struct Rank {
    int rank;
    ncclComm *c;
    float *a, *b;
    cudaStream_t compute, other;
};

static void fill(float *p, size_t n, float v, cudaStream_t s)
{
    float *host;
    cudaMallocHost((void **)&host, n * sizeof v);
    for (size_t i = 0; i < n; i++)
        host[i] = v;
    cudaMemcpyAsync(p, host, n * sizeof v, cudaMemcpyHostToDevice, s);
}

static void expect(const float *p, size_t n, float v)
{
    std::vector<float> host(n);
    cudaMemcpy(host.data(), p, n * sizeof v, cudaMemcpyDeviceToHost);
    for (float f : host)
        if (f != v) {
            fprintf(stderr, "wrong: %g for %g\n", (double)f, (double)v);
            return;
        }
}

/* All ranks run f on devices of their own; returns what they wrote to stderr. */
static std::string ranks(const std::function<void(Rank &)> &f, int come = RANKS)
{
    struct nccl_id id;
    int pipes[2];
    emu_nccl_unique_id(&id);
    if (pipe(pipes) != 0)
        return "no pipe";
    fflush(stdout);
    for (int r = 0; r < come; r++)
        if (fork() == 0) {
            dup2(pipes[1], 2);
            close(pipes[0]);
            Rank k = {r, nullptr, nullptr, nullptr, nullptr, nullptr};
            cudaSetDevice(r);
            cudaMalloc((void **)&k.a, RANKS * N * sizeof(float));
            cudaMalloc((void **)&k.b, RANKS * N * sizeof(float));
            cudaStreamCreateWithFlags(&k.compute, cudaStreamNonBlocking);
            cudaStreamCreateWithFlags(&k.other, cudaStreamNonBlocking);
            if (emu_nccl_init(&k.c, RANKS, id, r) != 0)
                fprintf(stderr, "init fails\n");
            else
                f(k);
            _exit(0);
        }
    close(pipes[1]);
    std::string said;
    char part[1024];
    for (ssize_t got; (got = read(pipes[0], part, sizeof part)) > 0;)
        said.append(part, (size_t)got);
    close(pipes[0]);
    for (int r = 0; r < come; r++)
        wait(nullptr);
    return said;
}

/* A sum over ranks of what the compute stream wrote, on the other stream. */
static void sum(Rank &k, bool waits, size_t n)
{
    cudaEvent_t written, summed;
    cudaEventCreate(&written);
    cudaEventCreate(&summed);
    fill(k.a, N, (float)k.rank + 1, k.compute);
    cudaEventRecord(written, k.compute);
    if (waits)
        cudaStreamWaitEvent(k.other, written, 0);
    if (emu_nccl_all_reduce(k.a, k.a, n, NCCL_F32, NCCL_SUM, k.c, k.other) != 0)
        fprintf(stderr, "refused\n");
    cudaEventRecord(summed, k.other);
    while (cudaEventQuery(summed) == cudaErrorNotReady)
        usleep(100);
}

static void test_sums()
{
    std::string said = ranks([](Rank &k) {
        sum(k, true, N);
        expect(k.a, N, 3);
        fill(k.a, RANKS * N, (float)k.rank + 1, k.other);
        emu_nccl_reduce_scatter(k.a, k.b, N, NCCL_F32, NCCL_SUM, k.c, k.other);
        emu_nccl_all_gather(k.b, k.a, N, NCCL_F32, k.c, k.other);
        cudaStreamSynchronize(k.other);
        expect(k.a, RANKS * N, 3);
        fill(k.b, N, (float)k.rank + 5, k.other);
        emu_nccl_broadcast(k.b, k.b, N, NCCL_F32, 1, k.c, k.other);
        cudaStreamSynchronize(k.other);
        expect(k.b, N, 6);
        emu_nccl_destroy(k.c);
    });
    CHECK(said.empty(), "two ranks sum, scatter, gather and broadcast: %s", said.c_str());
}

struct Bug {
    const char *what, *said;
    std::function<void(Rank &, bool)> run; /* with the bug or without */
};

static std::vector<Bug> bugs()
{
    auto done = [](Rank &k) { cudaStreamSynchronize(k.other); };
    return {
        {"a collective that does not wait for what it sums", "wrong: ",
         [](Rank &k, bool bug) {
             sum(k, !bug, N);
             expect(k.a, N, 3);
         }},
        {"counts that differ", "AllReduce of 999 (type 7, root 0) on rank 1",
         [](Rank &k, bool bug) { sum(k, true, bug && k.rank == 1 ? N - 1 : N); }},
        {"types that differ", "(type 9, root 0) on rank 1",
         [done](Rank &k, bool bug) {
             fill(k.a, N, 1, k.other);
             emu_nccl_all_reduce(k.a, k.a, N, bug && k.rank == 1 ? NCCL_BF16 : NCCL_F32, NCCL_SUM,
                                 k.c, k.other);
             done(k);
         }},
        {"another collective", "but AllGather of 1000",
         [done](Rank &k, bool bug) {
             fill(k.a, N, 1, k.other);
             if (bug && k.rank == 1)
                 emu_nccl_all_gather(k.a, k.b, N, NCCL_F32, k.c, k.other);
             else
                 emu_nccl_all_reduce(k.a, k.a, N, NCCL_F32, NCCL_SUM, k.c, k.other);
             done(k);
         }},
        {"roots that differ", "root 1) on rank 1",
         [done](Rank &k, bool bug) {
             fill(k.a, N, 1, k.other);
             emu_nccl_broadcast(k.a, k.a, N, NCCL_F32, bug ? k.rank : 0, k.c, k.other);
             done(k);
         }},
        {"a root that is no rank", "refused",
         [done](Rank &k, bool bug) {
             fill(k.a, N, 1, k.other);
             if (emu_nccl_broadcast(k.a, k.a, N, NCCL_F32, bug ? RANKS : 0, k.c, k.other) != 0)
                 fprintf(stderr, "refused\n");
             done(k);
         }},
        {"a rank that leaves one out", "waits in call 2 (AllReduce) for rank 1",
         [](Rank &k, bool bug) {
             sum(k, true, N);
             if (!bug || k.rank == 0)
                 sum(k, true, N);
             sleep(bug ? 2 : 0);
         }},
        {"a buffer that is too small", "do not fit device memory",
         [](Rank &k, bool bug) { sum(k, true, bug ? RANKS * N + 1000 : N); }},
        {"buffers that overlap", "overlap",
         [done](Rank &k, bool bug) {
             fill(k.a, N, 1, k.other);
             emu_nccl_all_reduce(k.a, bug ? k.a + 10 : k.a, N, NCCL_F32, NCCL_SUM, k.c, k.other);
             done(k);
         }},
        {"memory of the host", "no device pointer",
         [done](Rank &k, bool bug) {
             static float host[N];
             fill(k.a, N, 1, k.other);
             emu_nccl_all_reduce(k.a, bug ? host : k.b, N, NCCL_F32, NCCL_SUM, k.c, k.other);
             done(k);
         }},
        {"an end with a call in flight", "in flight",
         [](Rank &k, bool bug) {
             fill(k.a, N, 1, k.other);
             emu_nccl_all_reduce(k.a, k.a, N, NCCL_F32, NCCL_SUM, k.c, k.other);
             if (!bug)
                 cudaStreamSynchronize(k.other);
             emu_nccl_destroy(k.c);
         }},
    };
}

int main()
{
    setenv("CUEMU_DEVICES", "2", 1);
    setenv("CUEMU_NCCL_TIMEOUT", "1", 1);
    test_sums();
    setenv("CUEMU_LAZY", "1", 1);
    test_sums();
    for (const Bug &b : bugs()) {
        std::string said = ranks([&](Rank &k) { b.run(k, false); });
        CHECK(said.empty(), "silent without %s: %s", b.what, said.c_str());
        said = ranks([&](Rank &k) { b.run(k, true); });
        CHECK(said.find(b.said) != std::string::npos, "%s is caught", b.what);
        if (said.find(b.said) == std::string::npos)
            printf("# it says: %s\n", said.c_str());
    }
    std::string said = ranks([](Rank &) {}, 1);
    CHECK(said.find("1 of 2 ranks came to ncclCommInitRank") != std::string::npos,
          "a rank that does not come to the start: %s", said.c_str());
    return tap_done();
}

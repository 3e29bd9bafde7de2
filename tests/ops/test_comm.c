/* test_comm: one conformance suite for every comm: self, shm, mpi; with ASSAY_BACKEND=cuda nccl alone.
 *
 * Ranks are processes: launched by the test, or by mpirun, which runs this program again. Each rank
 * checks every case; rank 0 gathers what they found and tells the test a line a case. Sums are
 * compared bit by bit with sums in rank order, made here by other means.
 */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/tap.h"
#include "trainer/comm.h"
#include "trainer/launch.h"
#include "trainer/ops.h"

/* Two pieces of the backend's memory, room for the largest case. */
enum { ROOM = 20 << 20 };
struct suite {
    struct comm c;
    struct backend b;
    char *mem[2];
    bool host_first; /* ask comm's queue for its end before the backend's */
    struct rendezvous *meet;
    FILE *out; /* rank 0 */
    char bad[200];
};

/* ---- values ---- */

/* Nearest value with `bits` bits of mantissa and exponents from `least` on, ties to even: by
 * arithmetic, not by bits. */
static double rounded(double x, int bits, int least)
{
    int e;
    if (x == 0 || !isfinite(x))
        return x;
    frexp(x, &e);
    int unit = e - bits > least ? e - bits : least;
    return ldexp(nearbyint(ldexp(x, -unit)), unit);
}

static double as(enum dtype t, double x)
{
    if (t == DTYPE_BF16)
        return rounded(x, 8, -133);
    if (t == DTYPE_F16)
        return fabs(rounded(x, 11, -24)) >= 65520 ? copysign(INFINITY, x) : rounded(x, 11, -24);
    return (double)(float)x;
}

static void store(enum dtype t, void *at, int64_t i, double x)
{
    float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (t == DTYPE_F32)
        ((float *)at)[i] = f;
    else if (t == DTYPE_BF16)
        ((uint16_t *)at)[i] = (uint16_t)(u >> 16);
    else if (t == DTYPE_F16) {
        int e;
        double m = fabs(x);
        uint16_t h = signbit(x) ? 0x8000 : 0;
        frexp(m, &e);
        if (isinf(x))
            h |= 0x7C00;
        else if (m >= 0x1p-14)
            h |= (uint16_t)(((e + 14) << 10) + (int)(ldexp(m, 11 - e)) - 1024);
        else
            h |= (uint16_t)ldexp(m, 24);
        ((uint16_t *)at)[i] = h;
    } else if (t == DTYPE_I32)
        ((int32_t *)at)[i] = (int32_t)x;
    else
        ((uint64_t *)at)[i] = (uint64_t)x;
}

/* Of widely different sizes, so that another order of the sum is another sum. */
static double value(enum dtype t, int rank, int64_t i)
{
    static const double scale[] = {1, 3e-3, 177, -1, 1e-5, 40, -177};
    if (t == DTYPE_I32 || t == DTYPE_U64)
        return (double)(rank * 1000003 + i % 1000);
    return as(t, scale[((uint64_t)i * 31 + (uint64_t)rank * 3) % 7] *
                     (1 + (double)((i * 7919 + rank * 104729) % 1009) / 1009));
}

static double summed(enum dtype t, int world, int64_t i)
{
    float s = (float)value(t, 0, i);
    for (int r = 1; r < world; r++)
        s += (float)value(t, r, i);
    return as(t, s);
}

static void *filled(enum dtype t, int rank, int64_t from, int64_t n)
{
    char *v = calloc((size_t)n + 1, 8);
    for (int64_t i = 0; i < n; i++)
        store(t, v, i, value(t, rank, from + i));
    return v;
}

static void *wanted(enum dtype t, int world, int64_t from, int64_t n)
{
    char *v = calloc((size_t)n + 1, 8);
    for (int64_t i = 0; i < n; i++)
        store(t, v, i, summed(t, world, from + i));
    return v;
}

/* ---- cases ---- */

static void bad(struct suite *s, const char *what)
{
    if (!s->bad[0])
        snprintf(s->bad, sizeof s->bad, "rank %d: %.180s", s->c.rank, what);
}

static void equal(struct suite *s, const void *have, const void *want, size_t n, const char *what)
{
    if (memcmp(have, want, n) != 0)
        bad(s, what);
}

static void finish(struct suite *s)
{
    struct err e = {0};
    if (comm_sync(&s->c, &e))
        bad(s, e.msg);
}

/* All ranks' findings of a case become one line. */
static void report(struct suite *s, const char *name)
{
    struct err e = {0};
    char *all = calloc((size_t)s->c.world + 1, sizeof s->bad);
    const char *first = "";
    if (s->meet && rendezvous_gather(s->meet, s->bad, sizeof s->bad, all, &e))
        snprintf(all, sizeof s->bad, "%.199s", e.msg);
    else if (!s->meet)
        memcpy(all, s->bad, sizeof s->bad);
    for (int r = 0; r < s->c.world && !*first; r++)
        first = all + (size_t)r * sizeof s->bad;
    if (s->out)
        fprintf(s->out, "%d %s on %d rank%s%s%s\n", !*first, name, s->c.world,
                s->c.world > 1 ? "s" : "", *first ? ": " : "", first);
    free(all);
    s->bad[0] = 0;
}

/* The n values v at `at` bytes of piece k of the backend's memory; NULL: zeros. */
static struct tensor give(struct suite *s, int k, size_t at, enum dtype t, const void *v, int64_t n)
{
    struct tensor x = tensor_1d(t, s->mem[k] + at, n);
    if (at + tensor_bytes(&x) > ROOM)
        bad(s, "the test's memory is too small");
    else if (v)
        op_put(&s->b, &x, v);
    else
        op_zero(&s->b, &x);
    return x;
}

/* Is the tensor on the backend equal to what is wanted? */
static void compare(struct suite *s, const struct tensor *x, const void *want, const char *what)
{
    struct err e = {0};
    void *v = calloc(1, tensor_bytes(x) + 1);
    op_get(&s->b, v, x);
    if (op_sync(&s->b, &e))
        bad(s, e.msg);
    else
        equal(s, v, want, tensor_bytes(x), what);
    free(v);
}

/* Either queue may be asked first; which one is late then shows what waits for it. */
static void settle(struct suite *s, ticket t)
{
    comm_wait(&s->c, t);
    if (s->host_first)
        finish(s);
}

static void all_reduce(struct suite *s, enum dtype t, int64_t n)
{
    void *v = filled(t, s->c.rank, 0, n), *want = wanted(t, s->c.world, 0, n);
    struct tensor x = give(s, 0, 0, t, v, n);
    settle(s, comm_all_reduce(&s->c, &x, op_mark(&s->b)));
    compare(s, &x, want, "all_reduce is no sum in rank order");
    finish(s);
    free(v);
    free(want);
}

static void reduce_scatter(struct suite *s, enum dtype t, int64_t n, bool own)
{
    int64_t all = n * s->c.world, at = n * s->c.rank;
    void *v = filled(t, s->c.rank, 0, all), *want = wanted(t, s->c.world, at, n);
    struct tensor whole = give(s, 0, 0, t, v, all), part = give(s, 1, 0, t, NULL, n);
    if (own)
        part.data = s->mem[0] + (size_t)at * dtype_size(t);
    settle(s, comm_reduce_scatter(&s->c, &part, &whole, op_mark(&s->b)));
    compare(s, &part, want, "reduce_scatter gives another share");
    finish(s);
    free(v);
    free(want);
}

static void all_gather(struct suite *s, enum dtype t, int64_t n, bool own)
{
    size_t bytes = (size_t)n * dtype_size(t);
    void *mine = filled(t, s->c.rank, 0, n);
    struct tensor whole = give(s, 0, 0, t, NULL, n * s->c.world);
    struct tensor part = give(s, !own, own ? (size_t)s->c.rank * bytes : 0, t, mine, n);
    settle(s, comm_all_gather(&s->c, &whole, &part, op_mark(&s->b)));
    for (int r = 0; r < s->c.world; r++) {
        void *want = filled(t, r, 0, n);
        struct tensor of = tensor_1d(t, s->mem[0] + (size_t)r * bytes, n);
        compare(s, &of, want, "all_gather gives other parts");
        free(want);
    }
    finish(s);
    free(mine);
}

static void broadcast(struct suite *s, enum dtype t, int64_t n)
{
    for (int root = 0; root < s->c.world; root++) {
        void *v = filled(t, s->c.rank, root, n), *want = filled(t, root, root, n);
        struct tensor x = give(s, 0, 0, t, v, n);
        settle(s, comm_broadcast(&s->c, &x, root, op_mark(&s->b)));
        compare(s, &x, want, "broadcast gives other values");
        finish(s);
        free(v);
        free(want);
    }
}

/* Several at once; a wait for one is a wait for those before it. */
static void queue(struct suite *s)
{
    enum { MANY = 20, N = 5000 };
    struct tensor x[MANY];
    ticket t[MANY];
    for (int i = 0; i < MANY; i++) {
        void *v = filled(DTYPE_F32, s->c.rank, i, N);
        x[i] = give(s, 0, (size_t)i * N * sizeof(float), DTYPE_F32, v, N);
        t[i] = comm_all_reduce(&s->c, &x[i], op_mark(&s->b));
        free(v);
    }
    comm_wait(&s->c, t[9]);
    for (int i = 0; i < MANY; i++) {
        void *want = wanted(DTYPE_F32, s->c.world, i, N);
        if (i == 10)
            finish(s);
        compare(s, &x[i], want, i < 10 ? "done after its wait" : "after sync");
        free(want);
    }
    if (!(s->c.waited >= 0 && s->c.waited < 600))
        bad(s, "the time waited is no time");
}

static void expect(struct suite *s, const char *what, const char *also)
{
    struct err e = {0};
    char text[200];
    if (comm_sync(&s->c, &e) == 0)
        bad(s, "nothing was refused");
    else if (!strstr(e.msg, what) || !strstr(e.msg, also)) {
        snprintf(text, sizeof text, "it says %.180s", e.msg);
        bad(s, text);
    }
}

static int reopen(struct suite *s, const char *name)
{
    struct err e = {0};
    if (s->c.ops)
        comm_close(&s->c);
    if (comm_open(&s->c, name, &s->b, s->meet, &e) == 0)
        return 0;
    s->c =
        (struct comm){.world = s->meet ? s->meet->world : 1, .rank = s->meet ? s->meet->rank : 0};
    bad(s, e.msg);
    report(s, "it opens");
    return -1;
}

/* After a refusal a comm is of no more use: each case opens a new one. */
static void refusals(struct suite *s, const char *name)
{
    struct tensor t = give(s, 0, 0, DTYPE_F32, NULL, 8), i = give(s, 1, 0, DTYPE_I32, NULL, 8);
    struct tensor three = tensor_1d(DTYPE_F32, s->mem[1], 3);
    int world = s->c.world;
    comm_broadcast(&s->c, &t, world, 0);
    expect(s, "broadcast from rank", "");
    report(s, "a root that is not there is refused");
    if (reopen(s, name))
        return;
    comm_reduce_scatter(&s->c, &three, &t, 0);
    expect(s, "a part of 3", "");
    report(s, "a part that does not fit is refused");
    if (reopen(s, name))
        return;
    if (world == 1) {
        struct tensor elsewhere = tensor_1d(DTYPE_F32, s->mem[1], 8);
        comm_all_gather(&s->c, &t, &elsewhere, 0);
        expect(s, "same storage", "");
        report(s, "nor does a part that is not the whole");
        return;
    }
    struct tensor other =
        tensor_1d(DTYPE_F32, (char *)t.data + (size_t)((s->c.rank + 1) % world) * 4, 1);
    struct tensor whole = tensor_1d(DTYPE_F32, t.data, world);
    comm_all_gather(&s->c, &whole, &other, 0);
    expect(s, "a part of 1 f32 at another rank's place of a whole", "");
    report(s, "nor may it lie at another rank's place");
    if (reopen(s, name))
        return;
    comm_all_reduce(&s->c, &i, 0);
    expect(s, "i32 is not summed", "");
    report(s, "integers are not summed");
    if (reopen(s, name))
        return;
    t.dim[0] = s->c.rank == 1 ? 7 : 8;
    comm_all_reduce(&s->c, &t, 0);
    expect(s, "all_reduce of 8 elements on rank 0", "7 on rank 1");
    report(s, "a rank that calls otherwise is named");
    if (reopen(s, name))
        return;
    t.dim[0] = 8;
    if (s->c.rank == world - 1)
        comm_broadcast(&s->c, &t, 0, 0);
    else
        comm_all_reduce(&s->c, &t, 0);
    expect(s, "all_reduce of 8", "broadcast of 8");
    report(s, "so is one that calls something else");
}

static void sums(struct suite *s, enum dtype t)
{
    static const int64_t sizes[] = {1, 2, 7, 1000, 300001};
    char name[80];
    for (size_t i = 0; i < 2 * (sizeof sizes / sizeof *sizes); i++) {
        int64_t n = sizes[i / 2];
        s->host_first = i & 1;
        all_reduce(s, t, n);
        reduce_scatter(s, t, n, true);
        if (s->c.world > 1)
            reduce_scatter(s, t, n, false);
    }
    snprintf(name, sizeof name, "%s %s: sums in rank order, bit by bit", s->c.ops->name,
             dtype_name(t));
    report(s, name);
}

static void moves(struct suite *s, enum dtype t)
{
    char name[80];
    for (int64_t n = 1; n < 400000; n = n * 7 + 3) {
        s->host_first = n & 1;
        all_gather(s, t, n, true);
        if (s->c.world > 1)
            all_gather(s, t, n, false);
        broadcast(s, t, n);
    }
    snprintf(name, sizeof name, "%s %s: parts and broadcasts arrive", s->c.ops->name,
             dtype_name(t));
    report(s, name);
}

static void suite_all(const char *name, struct rendezvous *meet, FILE *out)
{
    struct suite s = {.meet = meet, .out = out, .c = {.world = meet ? meet->world : 1}};
    struct err e = {0};
    bool nccl = strcmp(name, "nccl") == 0;
    if (backend_open(&s.b, nccl ? "cuda" : "cpu", nccl ? meet->local : 0, 1, &e)) {
        bad(&s, e.msg);
        report(&s, "a backend opens");
        return;
    }
    for (int k = 0; k < 2; k++)
        s.mem[k] = op_alloc(&s.b, ROOM);
    if (reopen(&s, name))
        return;
    enum dtype real[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    enum dtype any[] = {DTYPE_F32, DTYPE_BF16, DTYPE_I32, DTYPE_U64};
    for (size_t i = 0; i < 3; i++)
        sums(&s, real[i]);
    for (size_t i = 0; i < 4; i++)
        moves(&s, any[i]);
    queue(&s);
    report(&s, "collectives queue, and a ticket waits for its own");
    /* Streams that are not lazy run a collective in its call: the emulator's own alarm comes first. */
    if (!nccl || getenv("CUEMU_LAZY"))
        refusals(&s, name);
    if (s.c.ops)
        comm_close(&s.c);
    backend_close(&s.b);
}

/* ---- who runs it ---- */

/* Lines "1 name" or "0 name" become tests. At least so many must come: a rank that died said less. */
static void read_lines(FILE *in, const char *what, int least)
{
    char line[512];
    int n = 0;
    while (fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        if ((line[0] != '0' && line[0] != '1') || line[1] != ' ')
            continue;
        CHECK(line[0] == '1', "%s", line + 2);
        n++;
    }
    CHECK(n >= least, "%s: all %d cases were told (%d)", what, least, n);
}

static void run_launched(int ranks, const char *name, int least)
{
    int p[2], status = -1;
    struct rendezvous_seat seat;
    struct err e = {0};
    char what[80];
    if (pipe(p))
        return;
    int rc = launch_ranks(ranks, &seat, &status, &e);
    if (rc == 1) {
        struct rendezvous r;
        struct rendezvous_options o = {.seat = &seat};
        FILE *out = seat.rank == 0 ? fdopen(p[1], "w") : NULL;
        if (rendezvous_open(&r, &o, &e))
            _exit(1);
        suite_all(name, &r, out);
        if (out)
            fclose(out);
        rendezvous_close(&r);
        _exit(0);
    }
    close(p[1]);
    FILE *in = fdopen(p[0], "r");
    snprintf(what, sizeof what, "%s with %d ranks", name, ranks);
    read_lines(in, what, least);
    CHECK(rc == 0 && status == 0, "%s: they end in order: %d %s", what, status, rc ? e.msg : "");
    fclose(in);
}

static void run_self(void)
{
    FILE *f = tmpfile();
    suite_all("self", NULL, f);
    rewind(f);
    read_lines(f, "self", 9);
    fclose(f);
}

static void run_mpi(const char *self, int ranks)
{
    char line[1024], lib[512];
    snprintf(lib, sizeof lib, "%s", self);
    for (int i = 0; i < 3 && strrchr(lib, '/'); i++)
        *strrchr(lib, '/') = 0;
    setenv("ASSAY_LIBDIR", lib, 1);
    strncat(lib, "/libassay_mpi.so", sizeof lib - strlen(lib) - 1);
    if (access(lib, F_OK) || system("command -v mpirun >/dev/null 2>&1")) {
        SKIP("mpi: Open MPI is not here (make deps MPI=1)");
        return;
    }
    fflush(NULL);
    snprintf(line, sizeof line,
             /* MPI leaks on its own */
             "ASAN_OPTIONS=detect_leaks=0 mpirun --allow-run-as-root --oversubscribe -n %d %s "
             "2>/dev/null </dev/null",
             ranks, self);
    FILE *in = popen(line, "r");
    read_lines(in, "mpi", 12);
    CHECK(pclose(in) == 0, "mpirun ends with 0");
}

/* A rank that dies within a collective: the others hear it there, with its number. */
static void run_death(bool nccl)
{
    struct rendezvous_seat seat;
    struct err e = {0};
    int status = -1;
    double before = clock_now();
    int rc = launch_ranks(3, &seat, &status, &e);
    if (rc == 1) {
        struct suite s = {0};
        struct rendezvous r;
        struct rendezvous_options o = {.seat = &seat, .silence = 2};
        int64_t n = nccl ? 1000 : 3000000;
        if (rendezvous_open(&r, &o, &e) ||
            backend_open(&s.b, nccl ? "cuda" : "cpu", nccl ? r.local : 0, 1, &e) ||
            comm_open(&s.c, NULL, &s.b, &r, &e))
            _exit(9);
        struct tensor t = tensor_1d(DTYPE_F32, op_alloc(&s.b, (size_t)n * sizeof(float)), n);
        for (int i = 0; i < 1000; i++) {
            if (i == 3 && r.rank == 1)
                raise(SIGKILL);
            comm_all_reduce(&s.c, &t, 0);
            if (comm_sync(&s.c, &e))
                _exit(strstr(e.msg, "rank 1 on") ? 4 : 5);
        }
        _exit(6);
    }
    CHECK(rc == -1 && strstr(e.msg, "was killed by signal 9") && clock_now() - before < 10,
          "a rank that dies within a collective ends the others: %s", e.msg);
}

int main(int argc, char **argv)
{
    char self[400] = "";
    (void)argc;
    (void)argv;
    if (getenv("OMPI_COMM_WORLD_RANK")) {
        struct rendezvous r;
        struct err e = {0};
        if (rendezvous_open(&r, NULL, &e)) {
            printf("0 mpi: %s\n", e.msg);
            return 1;
        }
        suite_all("mpi", &r, r.rank == 0 ? stdout : NULL);
        fflush(stdout);
        rendezvous_close(&r);
        return 0;
    }
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    struct err e = {0};
    struct backend b;
    struct comm c = {0};
    struct rendezvous two = {.rank = 1, .world = 2, .local_world = 1};
    if (getenv("ASSAY_BACKEND") && strcmp(getenv("ASSAY_BACKEND"), "cuda") == 0) {
        bool lazy = getenv("CUEMU_LAZY");
        run_launched(2, "nccl", lazy ? 12 : 8);
        run_launched(3, "nccl", lazy ? 12 : 8);
        if (lazy)
            run_death(true);
        return tap_done();
    }
    run_launched(2, "shm", 12);
    run_launched(3, "shm", 12);
    run_launched(5, "shm", 12);
    run_death(false);
    run_mpi(self, 2);
    run_mpi(self, 3);
    if (!CHECK(backend_open(&b, "cpu", 0, 1, &e) == 0, "a backend opens"))
        return tap_done();
    run_self();
    CHECK(comm_open(&c, NULL, &b, NULL, &e) == 0 && strcmp(c.ops->name, "self") == 0,
          "without a name one rank talks to itself");
    comm_close(&c);
    CHECK(comm_open(&c, "self", &b, &two, &e) < 0 && strstr(e.msg, "rank 1 of 2"),
          "self refuses a second rank: %s", e.msg);
    CHECK(comm_open(&c, "shm", &b, &two, &e) < 0 && strstr(e.msg, "1 of 2 are here"),
          "shm refuses ranks of two machines: %s", e.msg);
    CHECK(comm_open(&c, "carrier-pigeon", &b, NULL, &e) < 0 && strstr(e.msg, "self, shm, mpi") &&
              e.code == EXIT_USAGE,
          "an unknown comm fails with the list: %s", e.msg);
    comm_close(&c);
    backend_close(&b);
    return tap_done();
}

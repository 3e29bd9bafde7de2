/* scheduler: the threads of a block as fibers, barriers and warp collectives, see emu.hpp.
 *
 * A block's threads take turns: each runs until it ends or waits for others; whoever completes a
 * barrier or a collective runs on. A pass over all threads in which none could run is a deadlock.
 * Every block gets fresh shared memory filled with NaN, and a border behind each shared array that
 * is looked at when the block ends.
 */
#include "tests/cudaemu/emu.hpp"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <csignal>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMU_ASAN 1
#endif
#endif
#ifdef EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
enum { STACK = 256 << 10 };
#else
enum { STACK = 64 << 10 };
#endif

/* Saves the callee-saved registers on the running stack, stores its pointer, takes the other. */
extern "C" void emu_switch(void **save, void *to);
#if defined(__x86_64__)
asm(R"(.text
.globl emu_switch
.hidden emu_switch
.type emu_switch,@function
emu_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp,(%rdi)
    mov %rsi,%rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
.size emu_switch,.-emu_switch
)");
#else
#error "the emulator switches stacks on x86-64 only"
#endif

namespace emu
{

enum {
    LIVE_MASKS = 4,
    MOST_THREADS = 1024,
    SHARED_LIMIT = 227 << 10,
    BORDER = 64,
    ARENA = 300 << 10
};

struct Collective {
    unsigned mask, arrived, generation;
    const char *op, *file;
    int line;
    alignas(16) unsigned char slot[2][32][SLOT];
};
struct Warp {
    unsigned live;
    uint16_t
        turn; /* __syncwarp of all its lanes so far: nothing else orders memory within a warp */
    Collective c[LIVE_MASKS];
};
enum State : uint8_t { FRESH, READY, AT_BARRIER, IN_WARP, DONE };
struct Fiber : Thread {
    void *sp;
    State state;
    unsigned number;
    Warp *warp;
    Collective *waits;
    unsigned generation;
    const char *file;
    int line;
    char *stack;
    void *fake; /* AddressSanitizer's */
};
struct SharedArray {
    const void *key;
    unsigned char *p;
    size_t n;
};
struct Grid {
    const char *name;
    void (*call)(void *);
    void *arg;
    std::vector<Fiber> fiber;
    std::vector<Warp> warp;
    unsigned live, arrived, generation;
    const char *file;
    int line;
    void *main_sp, *main_fake;
    const void *main_stack;
    size_t main_size, used;
    Fiber *running;
    SharedArray shared[32];
    int nshared;
    bool early;
};

Thread *thread;
Block *block;
const Watcher *watcher;
static uint32_t grids;
static Grid *grid;
static std::recursive_mutex one_grid;
static char *stacks;
static unsigned char *arena;

void fail(const char *fmt, ...)
{
    va_list ap;
    fflush(stdout);
    fprintf(stderr, "CUEMU ERROR");
    if (grid)
        fprintf(stderr, " in %s, block (%u, %u, %u)", grid->name, block->index.x, block->index.y,
                block->index.z);
    if (thread)
        fprintf(stderr, ", thread (%u, %u, %u)", thread->index.x, thread->index.y, thread->index.z);
    fprintf(stderr, ": ");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n");
    fflush(stderr);
    signal(SIGABRT, SIG_DFL);
    abort();
}

/* ---- fibers ---- */

static void to_main(bool ending)
{
    Fiber *me = grid->running;
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(ending ? nullptr : &me->fake, grid->main_stack, grid->main_size);
#else
    (void)ending;
#endif
    emu_switch(&me->sp, grid->main_sp);
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(me->fake, nullptr, nullptr);
#endif
}

static void entry()
{
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &grid->main_stack, &grid->main_size);
#endif
    grid->call(grid->arg);
    Fiber *me = grid->running;
    if (cp_pending())
        fail("the thread ends with %zu copies of cp.async not waited for", cp_pending());
    me->state = DONE;
    grid->live--;
    me->warp->live &= ~(1u << me->lane);
    to_main(true);
    abort();
}

static void resume(Fiber *f)
{
    grid->running = f;
    thread = f;
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(&grid->main_fake, f->stack, STACK);
#endif
    emu_switch(&grid->main_sp, f->sp);
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(grid->main_fake, nullptr, nullptr);
#endif
    thread = nullptr;
}

static void start(Fiber *f)
{
    if (!stacks) {
        stacks = (char *)mmap(nullptr, (size_t)MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED)
            fail("no memory for the stacks of %d threads", MOST_THREADS);
    }
    f->stack = stacks + (size_t)STACK * f->number;
#ifdef EMU_ASAN
    ASAN_UNPOISON_MEMORY_REGION(f->stack, STACK);
#endif
    void **top = (void **)(f->stack + STACK - 64);
    *--top = nullptr;
    *--top = (void *)entry;
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    f->sp = top;
    f->state = READY;
}

/* ---- waiting for each other ---- */

static void open_barrier()
{
    grid->arrived = 0;
    grid->generation++;
}

void barrier(const char *file, int line)
{
    if (!grid || !thread)
        fail("%s:%d: __syncthreads outside of a kernel", file, line);
    Fiber *me = grid->running;
    unsigned now = grid->generation;
    if (grid->arrived && (grid->file != file || grid->line != line))
        fail("%s:%d: __syncthreads reached while other threads wait at %s:%d", file, line,
             grid->file, grid->line);
    grid->file = file;
    grid->line = line;
    if (++grid->arrived == grid->live) {
        open_barrier();
        return;
    }
    me->state = AT_BARRIER;
    me->generation = now;
    me->file = file;
    me->line = line;
    while (grid->generation == now)
        to_main(false);
    me->state = READY;
}

static Collective *collective(Warp *w, unsigned mask)
{
    for (Collective &c : w->c)
        if (c.mask == mask)
            return &c;
    for (Collective &c : w->c)
        if (!c.mask || !c.arrived) {
            c.mask = mask;
            return &c;
        }
    fail("more than %d warp masks in use at once", LIVE_MASKS);
}

unsigned char (*exchange(unsigned mask, const void *in, size_t n, combine f, const char *op,
                         const char *file, int line))[SLOT]
{
    if (!grid || !thread)
        fail("%s:%d: %s outside of a kernel", file, line, op);
    Fiber *me = grid->running;
    Warp *w = me->warp;
    if (!(mask >> me->lane & 1))
        fail("%s:%d: %s: lane %u calls, but is not in mask %08x", file, line, op, me->lane, mask);
    if ((w->live & mask) != mask)
        fail("%s:%d: %s: mask %08x names lanes that ended or never were (there are %08x)", file,
             line, op, mask, w->live);
    Collective *c = collective(w, mask);
    if (c->arrived && (c->op != op || c->line != line || c->file != file))
        fail("%s:%d: %s reached while lanes of mask %08x wait in %s at %s:%d", file, line, op, mask,
             c->op, c->file, c->line);
    c->op = op;
    c->file = file;
    c->line = line;
    unsigned now = c->generation;
    unsigned char(*slot)[SLOT] = c->slot[now & 1];
    if (n)
        memcpy(slot[me->lane], in, n);
    c->arrived |= 1u << me->lane;
    if (c->arrived == mask) {
        if (f)
            f(slot, mask);
        c->arrived = 0;
        c->generation++;
        if (mask == w->live && strcmp(op, "__syncwarp") == 0)
            w->turn++;
        return slot;
    }
    me->state = IN_WARP;
    me->waits = c;
    me->generation = now;
    me->file = file;
    me->line = line;
    while (c->generation == now)
        to_main(false);
    me->state = READY;
    return slot;
}

bool early_copies()
{
    return grid->early;
}

/* ---- shared memory ---- */

static unsigned char *carve(const void *key, size_t n, size_t align)
{
    size_t at = (grid->used + align - 1) / align * align;
    if (at + n + BORDER > ARENA || grid->nshared == 32)
        fail("the block wants more than %d bytes of shared memory", SHARED_LIMIT);
    unsigned char *p = arena + at;
    grid->used = at + n + BORDER;
#ifdef EMU_ASAN
    ASAN_UNPOISON_MEMORY_REGION(p, n);
#endif
    memset(p, 0xff, n);
#ifndef EMU_ASAN
    memset(p + n, 0xa5, BORDER);
#endif
    grid->shared[grid->nshared++] = SharedArray{key, p, n};
    return p;
}

void *shared_array(const void *key, size_t n, size_t align)
{
    for (int i = 0; i < grid->nshared; i++)
        if (grid->shared[i].key == key)
            return grid->shared[i].p;
    return carve(key, n, align);
}

static void begin_shared(size_t dynamic)
{
    if (!arena) {
        arena = (unsigned char *)aligned_alloc(128, ARENA);
        if (!arena)
            fail("no memory for a block's shared arrays");
    }
#ifdef EMU_ASAN
    ASAN_POISON_MEMORY_REGION(arena, ARENA);
#endif
    grid->used = 0;
    grid->nshared = 0;
    block->dynamic = dynamic ? carve(nullptr, dynamic, 128) : nullptr;
}

static void end_shared()
{
    size_t sum = 0;
    for (int i = 0; i < grid->nshared; i++) {
        sum += grid->shared[i].n;
#ifndef EMU_ASAN
        for (int k = 0; k < BORDER; k++)
            if (grid->shared[i].p[grid->shared[i].n + (size_t)k] != 0xa5)
                fail("something wrote %d bytes behind a shared array of %zu bytes", k,
                     grid->shared[i].n);
#endif
    }
    if (sum > SHARED_LIMIT)
        fail("%zu bytes of shared memory, a block has %d", sum, SHARED_LIMIT);
#ifdef EMU_ASAN
    ASAN_UNPOISON_MEMORY_REGION(arena, ARENA);
#endif
}

bool spot(const void *p, Spot *s)
{
    if (!grid || !thread)
        return false;
    const Fiber *f = grid->running;
    const unsigned char *at = (const unsigned char *)p;
    bool shared = at >= arena && at < arena + ARENA;
    if (!shared && !device_memory(p))
        return false;
    *s =
        Spot{grids,
             block->index.x + block->blocks.x * (block->index.y + block->blocks.y * block->index.z),
             grid->generation,
             (uint16_t)f->number,
             f->warp->turn,
             shared};
    return true;
}

/* ---- a grid ---- */

static void deadlock()
{
    for (const Fiber &f : grid->fiber)
        if (f.state == AT_BARRIER || f.state == IN_WARP)
            fail("deadlock: of %u live threads %u wait at a barrier; thread %u waits at %s:%d",
                 grid->live, grid->arrived, f.number, f.file, f.line);
    fail("deadlock");
}

static bool can_run(Fiber *f)
{
    switch (f->state) {
    case FRESH:
        start(f);
        return true;
    case AT_BARRIER:
        /* Threads that ended meanwhile are not waited for. */
        if (grid->generation == f->generation && grid->arrived == grid->live)
            open_barrier();
        return grid->generation != f->generation;
    case IN_WARP:
        return f->waits->generation != f->generation;
    case DONE:
        return false;
    default:
        return true;
    }
}

/* Lets the threads of v run once each, as far as they can; returns whether any could. */
static bool run_some(const std::vector<unsigned> &v, size_t *done)
{
    bool any = false;
    for (unsigned i : v) {
        Fiber *f = &grid->fiber[i];
        if (!can_run(f))
            continue;
        any = true;
        resume(f);
        *done += f->state == DONE;
    }
    return any;
}

/* In turns, or greedily: a warp runs on until all of it waits for other warps. Only so does a warp
 * get far enough ahead to overwrite what others still read, where a barrier is missing. */
static void run_block(const std::vector<unsigned> &order, bool greedy)
{
    size_t done = 0, n = order.size();
    std::vector<std::vector<unsigned>> warps;
    std::vector<int> at((n + 31) / 32, -1);
    for (size_t i = 0; greedy && i < n; i++) {
        int &w = at[order[i] / 32];
        if (w < 0) {
            w = (int)warps.size();
            warps.emplace_back();
        }
        warps[(size_t)w].push_back(order[i]);
    }
    if (!greedy)
        warps.push_back(order);
    while (done < n) {
        bool any = false;
        for (const std::vector<unsigned> &w : warps)
            while (run_some(w, &done)) {
                any = true;
                if (!greedy)
                    break;
            }
        if (!any)
            deadlock();
    }
}

static unsigned long seed()
{
    const char *s = getenv("CUEMU_SEED");
    return s ? strtoul(s, nullptr, 10) : 0;
}

/* Seed 0: as it comes; 1: backward; others: shuffled by a linear congruence. Odd: greedy warps. */
static void shuffle_order(std::vector<unsigned> &v, unsigned long s, uint64_t *state)
{
    size_t n = v.size();
    for (size_t i = 0; i < n; i++)
        v[i] = (unsigned)(s == 1 ? n - 1 - i : i);
    for (size_t i = n; s > 1 && i > 1; i--) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        std::swap(v[i - 1], v[(*state >> 33) % i]);
    }
}

static void on_wild_access(int, siginfo_t *info, void *)
{
    const char *what = wild_access(info->si_addr);
    fail("wild access to %p%s%s", info->si_addr, what ? ": " : "", what ? what : "");
}

static void catch_wild_access()
{
#ifndef EMU_ASAN
    static bool done;
    if (done)
        return;
    done = true;
    static char other[64 << 10];
    stack_t stack = {};
    stack.ss_sp = other;
    stack.ss_size = sizeof other;
    sigaltstack(&stack, nullptr);
    struct sigaction a = {};
    a.sa_sigaction = on_wild_access;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &a, nullptr);
    sigaction(SIGBUS, &a, nullptr);
#else
    (void)on_wild_access;
#endif
}

void run_grid(const char *name, dim3 blocks, dim3 threads, size_t dynamic, void (*call)(void *),
              void *arg)
{
    std::lock_guard<std::recursive_mutex> lock(one_grid);
    catch_wild_access();
    unsigned n = threads.x * threads.y * threads.z;
    static Grid g; /* its vectors are kept from grid to grid */
    Block b = {};
    g.name = name;
    g.call = call;
    g.arg = arg;
    if (g.fiber.size() < n)
        g.fiber.resize(n);
    if (g.warp.size() < (n + 31) / 32)
        g.warp.resize((n + 31) / 32);
    b.threads = threads;
    b.blocks = blocks;
    grid = &g;
    block = &b;
    grids++;
    if (watcher)
        watcher->begin(name);
    unsigned long s = seed();
    g.early = s % 4 == 3;
    uint64_t state = s * 0x9e3779b97f4a7c15u + 1;
    std::vector<unsigned> order(n), turn((size_t)blocks.x * blocks.y * blocks.z);
    shuffle_order(turn, s, &state);
    for (unsigned at : turn) {
        b.index = {at % blocks.x, at / blocks.x % blocks.y, at / (blocks.x * blocks.y)};
        g.live = n;
        g.arrived = g.generation = 0;
        for (size_t w = 0; w < (n + 31) / 32; w++) {
            g.warp[w].live = g.warp[w].turn = 0;
            for (Collective &c : g.warp[w].c)
                c.mask = c.arrived = c.generation = 0;
        }
        for (unsigned i = 0; i < n; i++) {
            Fiber *f = &g.fiber[i];
            f->number = i;
            f->index = {i % threads.x, i / threads.x % threads.y, i / (threads.x * threads.y)};
            f->lane = i & 31;
            f->warp = &g.warp[i >> 5];
            f->warp->live |= 1u << f->lane;
            f->state = FRESH;
        }
        begin_shared(dynamic);
        shuffle_order(order, s, &state);
        run_block(order, s % 2 == 1);
        end_shared();
        cp_forget();
    }
    grid = nullptr;
    block = nullptr;
    check_borders(name);
}

} // namespace emu

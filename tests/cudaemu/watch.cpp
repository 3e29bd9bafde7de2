/* watch: every load and store of a kernel is looked at: for races, or for the shape of memory traffic.
 *
 * Kernels are compiled with clang++ -fsanitize=thread, whose calls end here in place of its runtime,
 * which does not know fibers. What orders two threads of a block is a barrier between them, or, within
 * a warp, a __syncwarp of all lanes (shuffles order no memory); nothing orders two blocks of a grid but atomics. Two accesses
 * that nothing orders, of which one writes, are a race: both lines are said and the process ends,
 * whatever the schedule of this run was. Of each two bytes the last write and the last two readers are
 * kept, so a race may go unseen when others read between; never the other way round.
 *
 * CUEMU_SHAPE=file counts instead: a request is what a warp's lanes touch by one instruction at one
 * turn; its sectors are the 32-byte pieces that hold these bytes. Moves of 8 and 16 bytes by which one
 * thread goes on where it stopped are one request: a compiler cut them, or the later find their sectors
 * in the first cache. A line a kernel is appended at the
 * end: launches, requests, sectors, the fewest sectors that could hold the bytes, their ratio; and behind
 * "#" the lines of source whose ratio is above 1.25.
 */
#include "tests/cudaemu/emu.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{

using emu::Spot;

/* ---- who said what ---- */

std::string line_of(const void *pc)
{
    Dl_info d;
    char command[1200], text[400] = "";
    if (!pc || !dladdr(pc, &d) || !d.dli_fname)
        return "the emulator's own work";
    snprintf(command, sizeof command, "addr2line -i -e '%s' %#lx 2>/dev/null", d.dli_fname,
             (unsigned long)((const char *)pc - (const char *)d.dli_fbase - 1));
    std::string all;
    if (FILE *f = popen(command, "r")) {
        while (fgets(text, sizeof text, f)) { /* the innermost first, then who it is inlined in */
            std::string one(text);
            one = one.substr(0, one.find('\n'));
            size_t slash = one.find("trainer/cuda/");
            slash = slash == std::string::npos ? one.find("tests/cudaemu/") : slash;
            all += (all.empty() ? "" : ", in ") +
                   (slash == std::string::npos ? one : one.substr(slash));
        }
        pclose(f);
    }
    return all.empty() ? "?" : all;
}

/* ---- races ---- */

struct Mark {
    uint32_t grid, block;
    uint16_t thread, warp_turn;
    uint32_t turn;
    const void *pc;
    bool atomic;
};
struct Cell {
    Mark write, reader[2];
};
enum { PAGE = 4096, UNIT = 2 };
std::unordered_map<uintptr_t, Cell *> pages;

Cell *cell(uintptr_t at)
{
    static uintptr_t last_page;
    static Cell *last;
    uintptr_t page = at / PAGE;
    if (!last || page != last_page) {
        Cell *&p = pages[page];
        if (!p)
            p = (Cell *)calloc(PAGE / UNIT, sizeof(Cell));
        last = p;
        last_page = page;
    }
    return last + at % PAGE / UNIT;
}

bool ordered(const Mark &was, const Mark &is, bool shared)
{
    if (was.grid != is.grid || (was.atomic && is.atomic))
        return true;
    if (was.block != is.block)
        return shared; /* another block's shared memory is another memory */
    return was.thread == is.thread || was.turn != is.turn ||
           (was.thread / 32 == is.thread / 32 && was.warp_turn != is.warp_turn);
}

void check(const Mark &was, bool wrote, const Mark &is, bool writes, bool shared, uintptr_t at)
{
    if (ordered(was, is, shared))
        return;
    emu::fail("race on %s memory at %#lx: block %u thread %u %s it at %s; nothing orders that and "
              "thread %u of block %u, which %s it at %s",
              shared ? "shared" : "global", (unsigned long)at, was.block, was.thread,
              wrote ? "wrote" : "read", line_of(was.pc).c_str(), is.thread, is.block,
              writes ? "writes" : "reads", line_of(is.pc).c_str());
}

void watch_race(const Spot &s, uintptr_t at, size_t n, bool write, bool atomic, const void *pc)
{
    Mark is = {s.grid, s.block, s.thread, s.warp_turn, s.turn, pc, atomic};
    for (uintptr_t x = at / UNIT * UNIT; x < at + n; x += UNIT) {
        Cell *c = cell(x);
        check(c->write, true, is, write, s.shared, x);
        if (write) {
            check(c->reader[0], false, is, true, s.shared, x);
            check(c->reader[1], false, is, true, s.shared, x);
            c->write = is;
        } else if (c->reader[0].grid == is.grid && c->reader[0].block == is.block &&
                   c->reader[0].thread == is.thread) {
            c->reader[0] = is;
        } else {
            c->reader[1] = c->reader[0];
            c->reader[0] = is;
        }
    }
}

/* ---- shape ---- */

struct Shape {
    uint64_t grids, requests, sectors, least;
};
struct Piece {
    uintptr_t at;
    size_t n;
};
struct Site {
    uint32_t grid, block;
    Shape sum;                   /* over all kernels that come here */
    std::vector<uint32_t> turns; /* of each thread at this instruction */
    std::map<std::pair<uint32_t, uint32_t>, std::vector<Piece>> open; /* by turn and warp */
};
/* A thread's last move, which its next may go on with. */
struct Last {
    uint32_t grid, block;
    bool write;
    std::vector<Piece> *pieces;
    size_t index;
};
std::map<std::string, Shape> shapes;
std::vector<Last> lasts(1024);
std::unordered_map<const void *, Site> sites;
std::string kernel;

void close_requests(Site *s)
{
    Shape &sum = shapes[kernel];
    for (auto &request : s->open) {
        std::vector<Piece> &v = request.second;
        std::sort(v.begin(), v.end(), [](const Piece &a, const Piece &b) { return a.at < b.at; });
        uintptr_t end = 0, next_sector = 0, bytes = 0, sectors = 0;
        for (const Piece &p : v) {
            uintptr_t from = std::max(p.at, end), to = p.at + p.n;
            bytes += to > from ? to - from : 0;
            end = std::max(end, to);
            uintptr_t first = std::max(p.at / 32, next_sector), last = (to - 1) / 32;
            if (last >= first)
                sectors += last - first + 1;
            next_sector = std::max(next_sector, last + 1);
        }
        for (Shape *to : {&sum, &s->sum}) {
            to->requests++;
            to->sectors += sectors;
            to->least += (bytes + 31) / 32;
        }
    }
    s->open.clear();
    std::fill(s->turns.begin(), s->turns.end(), 0);
}

void close_all()
{
    for (auto &s : sites)
        close_requests(&s.second);
}

bool goes_on(const Spot &s, uintptr_t at, size_t n, bool write)
{
    const Last &l = lasts[s.thread];
    if (n < 8 || l.grid != s.grid || l.block != s.block || l.write != write || !l.pieces)
        return false;
    Piece &p = (*l.pieces)[l.index];
    if (p.at + p.n != at || p.n % 8)
        return false;
    p.n += n;
    return true;
}

void watch_shape(const Spot &s, uintptr_t at, size_t n, bool write, const void *pc)
{
    if (s.shared || goes_on(s, at, n, write))
        return;
    Site &site = sites[pc];
    if (site.grid != s.grid || site.block != s.block)
        close_requests(&site);
    site.grid = s.grid;
    site.block = s.block;
    if (site.turns.size() <= s.thread)
        site.turns.resize(s.thread + 1u);
    std::vector<Piece> &v = site.open[{site.turns[s.thread]++, s.thread / 32u}];
    v.push_back(Piece{at, n});
    lasts[s.thread] = Last{s.grid, s.block, write, &v, v.size() - 1};
}

struct Report {
    const char *path = getenv("CUEMU_SHAPE");
    ~Report()
    {
        FILE *f = path ? fopen(path, "a") : nullptr;
        if (!f)
            return;
        close_all();
        for (auto &k : shapes)
            if (k.second.requests)
                fprintf(f, "%s %llu %llu %llu %llu %.3f\n", k.first.c_str(),
                        (unsigned long long)k.second.grids, (unsigned long long)k.second.requests,
                        (unsigned long long)k.second.sectors, (unsigned long long)k.second.least,
                        (double)k.second.sectors / (double)k.second.least);
        for (auto &s : sites) /* where it is not as it should be */
            if (4 * s.second.sum.sectors > 5 * s.second.sum.least)
                fprintf(f, "# %.3f %llu %s\n",
                        (double)s.second.sum.sectors / (double)s.second.sum.least,
                        (unsigned long long)s.second.sum.sectors, line_of(s.first).c_str());
        fclose(f);
    }
} report;

void access(const void *p, size_t n, bool write, bool atomic, const void *pc)
{
    Spot s;
    if (!n || !emu::spot(p, &s))
        return;
    if (report.path)
        watch_shape(s, (uintptr_t)p, n, write, pc);
    else
        watch_race(s, (uintptr_t)p, n, write, atomic, pc);
}

void begin(const char *name)
{
    if (!report.path)
        return;
    close_all();
    kernel = name;
    shapes[kernel].grids++;
}

const emu::Watcher watcher = {access, begin};
struct Start {
    Start()
    {
        emu::watcher = &watcher;
    }
} start;

} // namespace

#define PC __builtin_return_address(0)
#define HOOKS(n)                                                                                   \
    void __tsan_read##n(void *p)                                                                   \
    {                                                                                              \
        access(p, n, false, false, PC);                                                            \
    }                                                                                              \
    void __tsan_write##n(void *p)                                                                  \
    {                                                                                              \
        access(p, n, true, false, PC);                                                             \
    }                                                                                              \
    void __tsan_unaligned_read##n(void *p)                                                         \
    {                                                                                              \
        access(p, n, false, false, PC);                                                            \
    }                                                                                              \
    void __tsan_unaligned_write##n(void *p)                                                        \
    {                                                                                              \
        access(p, n, true, false, PC);                                                             \
    }                                                                                              \
    void __tsan_read_write##n(void *p)                                                             \
    {                                                                                              \
        access(p, n, true, false, PC);                                                             \
    }                                                                                              \
    void __tsan_unaligned_read_write##n(void *p)                                                   \
    {                                                                                              \
        access(p, n, true, false, PC);                                                             \
    }

/* The names are clang's (its pass ThreadSanitizer). */
extern "C" {
void __tsan_init()
{
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit()
{
}
void __tsan_vptr_update(void **, void *)
{
}
void __tsan_vptr_read(void **)
{
}
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void *__tsan_memcpy(void *to, const void *from, size_t n)
{
    access(from, n, false, false, PC);
    access(to, n, true, false, PC);
    return memcpy(to, from, n);
}
void *__tsan_memset(void *to, int v, size_t n)
{
    access(to, n, true, false, PC);
    return memset(to, v, n);
}
void *__tsan_memmove(void *to, const void *from, size_t n)
{
    access(from, n, false, false, PC);
    access(to, n, true, false, PC);
    return memmove(to, from, n);
}
}

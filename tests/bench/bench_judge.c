/* bench: `assay judge` against a loopback server that answers at once, or after 200 ms.
 *
 * Verdicts a second and CPU a verdict with 64 connections; the share over the ideal time at 200 ms;
 * peak memory by number of items. Its peer is tests/bench/judge_peer.py (asyncio and the official openai
 * package), run in the same minute against the same server with the Python that
 * ASSAY_PEER_PYTHON names:
 *
 *   python3 -m venv build/peer && build/peer/bin/pip install openai
 *   ASSAY_PEER_PYTHON=build/peer/bin/python make bench
 *
 * The server is this program: one thread, epoll, a fixed reply. CPU times are of the clients alone.
 */
#include "tests/fastd.h"

enum { CONNECTIONS = 64 };

static struct arena arena;

static struct fastd_cost ours(const char *dir, int n, int port, const char *out)
{
    const char *tool = getenv("ASSAY");
    char *argv[] = {arena_strdup(&arena, tool ? tool : "build/assay"),
                    "judge",
                    "--judge",
                    arena_printf(&arena, "http://127.0.0.1:%d/v1#m", port),
                    "--items",
                    arena_printf(&arena, "%s/items%d.jsonl", dir, n),
                    "--responses",
                    arena_printf(&arena, "%s/r%d.msgpack", dir, n),
                    "--concurrency",
                    arena_printf(&arena, "%d", CONNECTIONS),
                    "--out",
                    arena_printf(&arena, "%s/%s", dir, out),
                    NULL};
    return fastd_run(argv);
}

static struct fastd_cost theirs(const char *dir, int n, int port, const char *python)
{
    char *argv[] = {arena_strdup(&arena, python),
                    "tests/bench/judge_peer.py",
                    arena_printf(&arena, "http://127.0.0.1:%d/v1", port),
                    arena_printf(&arena, "%s/items%d.jsonl", dir, n),
                    arena_printf(&arena, "%d", CONNECTIONS),
                    arena_printf(&arena, "%s/peer.jsonl", dir),
                    NULL};
    return fastd_run(argv);
}

static void say(const char *what, const struct fastd_cost *c, int n)
{
    if (c->status)
        printf("judge: %s failed (status %d)\n", what, c->status);
    else
        printf("judge: %-28s %8.0f verdicts/s  %7.0f us of CPU a verdict  %6.1f MiB\n", what,
               n / c->wall, c->cpu / n * 1e6, (double)c->rss_kib / 1024);
}

/* Peak memory by number of items: 1,000, ten times that... up to $ASSAY_BENCH_ITEMS (100,000). */
static int memory(const char *dir, int port, struct err *e)
{
    const char *most = getenv("ASSAY_BENCH_ITEMS");
    long end = most ? strtol(most, NULL, 10) : 100000, before = 0;
    for (int n = 1000; n <= end; n *= 10) {
        const char *out = arena_printf(&arena, "memory%d", n);
        if (fastd_inputs(dir, n, e))
            return -1;
        struct fastd_cost c = ours(dir, n, port, out);
        say(arena_printf(&arena, "assay, %d items", n), &c, n);
        if (before)
            printf("judge: %.1f bytes an item more than with a tenth of them\n",
                   (double)(c.rss_kib - before) * 1024 / (0.9 * n));
        before = c.rss_kib;
        if (file_remove_tree(path_join(&arena, dir, out), e))
            return -1;
    }
    return 0;
}

int main(void)
{
    enum { MANY = 20000, SLOW = 6400, PEER = 2000 };
    char dir[] = "/tmp/bench_judge.XXXXXX";
    const char *python = getenv("ASSAY_PEER_PYTHON");
    struct err e = {0};
    int port = 0;
    if (!mkdtemp(dir) || fastd_inputs(dir, MANY, &e) || fastd_inputs(dir, SLOW, &e) ||
        fastd_inputs(dir, PEER, &e)) {
        fprintf(stderr, "bench_judge: %s\n", e.msg);
        return 1;
    }
    pid_t server = fastd_start(0, &port);
    struct fastd_cost many = ours(dir, MANY, port, "many");
    say("assay, 20,000 items", &many, MANY);
    if (memory(dir, port, &e)) {
        fprintf(stderr, "bench_judge: %s\n", e.msg);
        return 1;
    }
    if (python && *python) {
        struct fastd_cost peer = theirs(dir, PEER, port, python);
        say("openai package, asyncio", &peer, PEER);
        if (!peer.status)
            printf("judge: %.1f times less CPU a verdict than the openai package\n",
                   (peer.cpu / PEER) / (many.cpu / MANY));
    } else {
        printf("judge: no peer: ASSAY_PEER_PYTHON names no Python with the openai package\n");
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    server = fastd_start(0.2, &port);
    struct fastd_cost slow = ours(dir, SLOW, port, "slow");
    double ideal = 0.2 * SLOW / CONNECTIONS;
    say("assay, server takes 200 ms", &slow, SLOW);
    printf("judge: %.2f s, %.1f%% over the ideal %.1f s\n", slow.wall,
           100 * (slow.wall / ideal - 1), ideal);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    file_remove_tree(dir, &e);
    arena_release(&arena);
    return 0;
}

/* bench: `assay judge` against a loopback server that answers at once, or after 200 ms.
 *
 * Verdicts a second and CPU a verdict with 64 connections; the share over the ideal time at 200 ms;
 * memory for 4 times the items. Its peer is tests/bench/judge_peer.py (asyncio and the official openai
 * package), run in the same minute against the same server with the Python that
 * ASSAY_PEER_PYTHON names:
 *
 *   python3 -m venv build/peer && build/peer/bin/pip install openai
 *   ASSAY_PEER_PYTHON=build/peer/bin/python make bench
 *
 * The server is this program: one thread, epoll, a fixed reply. CPU times are of the clients alone.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "formats/item.h"
#include "formats/record.h"

enum { CONNECTIONS = 64, MOST_FD = 4096 };

/* ---- the server ----------------------------------------------------------------------------- */

struct peer {
    struct buf in;
    double due; /* an answer is owed at this time; 0: none */
};

static void reply(int fd)
{
    static const char body[] =
        "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"m\","
        "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"85\"},"
        "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":90,\"completion_tokens\":1,"
        "\"total_tokens\":91}}";
    char out[1024];
    int n = snprintf(out, sizeof out,
                     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
                     "%zu\r\n\r\n%s",
                     strlen(body), body);
    if (send(fd, out, (size_t)n, MSG_NOSIGNAL) != n)
        shutdown(fd, SHUT_RDWR);
}

/* True when a whole request was taken off the front of the buffer. */
static bool take_request(struct buf *in)
{
    char *end = in->p ? strstr(in->p, "\r\n\r\n") : NULL;
    char *length = in->p ? strcasestr(in->p, "content-length:") : NULL;
    if (!end || !length)
        return false;
    size_t whole = (size_t)(end + 4 - in->p) + strtoul(length + 15, NULL, 10);
    if (in->n < whole)
        return false;
    memmove(in->p, in->p + whole, in->n - whole);
    buf_cut(in, in->n - whole);
    return true;
}

static void receive(struct peer *c, int fd, double delay)
{
    char piece[16384];
    ssize_t n = read(fd, piece, sizeof piece);
    if (n <= 0) {
        close(fd);
        buf_cut(&c->in, 0);
        c->due = 0;
        return;
    }
    buf_add(&c->in, piece, (size_t)n);
    if (!take_request(&c->in))
        return;
    if (delay > 0)
        c->due = clock_now() + delay;
    else
        reply(fd);
}

static void serve(int listener, double delay)
{
    struct peer *c = mem_array(MOST_FD, sizeof *c);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, got[256];
    int poll = epoll_create1(0), one = 1;
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        int n = epoll_wait(poll, got, 256, delay > 0 ? 1 : 1000);
        for (int i = 0; i < n; i++) {
            int fd = got[i].data.fd;
            if (fd != listener) {
                receive(&c[fd], fd, delay);
                continue;
            }
            fd = accept(listener, NULL, NULL);
            if (fd < 0 || fd >= MOST_FD)
                continue;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            e.data.fd = fd;
            epoll_ctl(poll, EPOLL_CTL_ADD, fd, &e);
        }
        double now = clock_now();
        for (int fd = 0; delay > 0 && fd < MOST_FD; fd++)
            if (c[fd].due > 0 && c[fd].due <= now) {
                c[fd].due = 0;
                reply(fd);
            }
    }
}

static pid_t start_server(double delay, int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&a, n) || listen(fd, 512) ||
        getsockname(fd, (struct sockaddr *)&a, &n))
        return -1;
    *port = ntohs(a.sin_port);
    pid_t pid = fork();
    if (pid == 0) {
        serve(fd, delay);
        _exit(0);
    }
    close(fd);
    return pid;
}

/* ---- clients -------------------------------------------------------------------------------- */

struct cost {
    double wall, cpu;
    long rss_kib;
    int status;
};

static struct cost run(char *const argv[])
{
    struct cost c = {0};
    struct rusage u;
    double start = clock_now();
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        if (!getenv("V"))
            dup2(null, 2);
        execv(argv[0], argv);
        _exit(127);
    }
    wait4(pid, &c.status, 0, &u);
    c.wall = clock_now() - start;
    c.cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
            (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
    c.rss_kib = u.ru_maxrss;
    return c;
}

static struct arena arena;

/* items.jsonl for both, and responses for us: texts of the size of the instruction data. */
static int write_inputs(const char *dir, int n, struct err *e)
{
    struct buf b = {0};
    const char *path = arena_printf(&arena, "%s/r%d.msgpack", dir, n);
    struct records *w = records_open(path, &response_schema, RECORD_WRITE, e);
    for (int i = 0; w && i < n; i++) {
        buf_printf(&b,
                   "{\"id\":\"i%d\",\"instruction\":\"Rewrite sentence %d so that it stands in the "
                   "passive voice.\",\"input\":\"\",\"output\":\"Sentence %d was rewritten.\","
                   "\"answer\":\"The sentence %d has been rewritten in the passive voice.\"}\n",
                   i, i, i, i);
        struct response r = {.item = str_printf(&arena, "i%d", i),
                             .text = str_printf(&arena,
                                                "The sentence %d has been rewritten in the passive "
                                                "voice.",
                                                i),
                             .tokens_in = FIELD_NONE_I64,
                             .tokens_out = FIELD_NONE_I64};
        if (records_append(w, &r, e))
            return -1;
    }
    int rc = !w || records_close(w, e) ||
             file_write_all(arena_printf(&arena, "%s/items%d.jsonl", dir, n), buf_str(&b), e);
    buf_release(&b);
    return rc ? -1 : 0;
}

static struct cost ours(const char *dir, int n, int port, const char *out)
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
    return run(argv);
}

static struct cost theirs(const char *dir, int n, int port, const char *python)
{
    char *argv[] = {arena_strdup(&arena, python),
                    "tests/bench/judge_peer.py",
                    arena_printf(&arena, "http://127.0.0.1:%d/v1", port),
                    arena_printf(&arena, "%s/items%d.jsonl", dir, n),
                    arena_printf(&arena, "%d", CONNECTIONS),
                    arena_printf(&arena, "%s/peer.jsonl", dir),
                    NULL};
    return run(argv);
}

static void say(const char *what, const struct cost *c, int n)
{
    if (c->status)
        printf("judge: %s failed (status %d)\n", what, c->status);
    else
        printf("judge: %-28s %8.0f verdicts/s  %7.0f us of CPU a verdict  %6.1f MiB\n", what,
               n / c->wall, c->cpu / n * 1e6, (double)c->rss_kib / 1024);
}

int main(void)
{
    enum { FEW = 5000, MANY = 20000, SLOW = 6400, PEER = 2000 };
    char dir[] = "/tmp/bench_judge.XXXXXX";
    const char *python = getenv("ASSAY_PEER_PYTHON");
    struct err e = {0};
    int port = 0;
    if (!mkdtemp(dir) || write_inputs(dir, FEW, &e) || write_inputs(dir, MANY, &e) ||
        write_inputs(dir, SLOW, &e) || write_inputs(dir, PEER, &e)) {
        fprintf(stderr, "bench_judge: %s\n", e.msg);
        return 1;
    }
    pid_t server = start_server(0, &port);
    struct cost few = ours(dir, FEW, port, "few"), many = ours(dir, MANY, port, "many");
    say("assay, 5,000 items", &few, FEW);
    say("assay, 20,000 items", &many, MANY);
    printf("judge: memory grows by %.0f bytes an item\n",
           (double)(many.rss_kib - few.rss_kib) * 1024 / (MANY - FEW));
    if (python && *python) {
        struct cost peer = theirs(dir, PEER, port, python);
        say("openai package, asyncio", &peer, PEER);
        if (!peer.status)
            printf("judge: %.1f times less CPU a verdict than the openai package\n",
                   (peer.cpu / PEER) / (many.cpu / MANY));
    } else {
        printf("judge: no peer: ASSAY_PEER_PYTHON names no Python with the openai package\n");
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    server = start_server(0.2, &port);
    struct cost slow = ours(dir, SLOW, port, "slow");
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

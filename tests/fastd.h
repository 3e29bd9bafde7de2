/* A judge that answers at once, or after a while, and what a client of it costs. For tests and
 * benchmarks of many questions: one process, epoll, a fixed reply (tests/httpd.c has faults).
 *
 *   pid_t server = fastd_start(0, &port);
 *   fastd_inputs(dir, 1000, &e);                   dir/items1000.jsonl, dir/r1000.msgpack
 *   struct fastd_cost c = fastd_run(argv);         wall and CPU time, peak memory
 *   kill(server, SIGKILL);
 */
#ifndef TESTS_FASTD_H
#define TESTS_FASTD_H

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
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "formats/item.h"
#include "formats/record.h"

enum { FASTD_MOST = 4096 };

/* ---- the server ----------------------------------------------------------------------------- */

struct fastd_peer {
    struct buf in;
    double due; /* an answer is owed at this time; 0: none */
};

static void fastd_reply(int fd)
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
static bool fastd_take(struct buf *in)
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

static void fastd_receive(struct fastd_peer *c, int fd, double delay)
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
    if (!fastd_take(&c->in))
        return;
    if (delay > 0)
        c->due = clock_now() + delay;
    else
        fastd_reply(fd);
}

static void fastd_serve(int listener, double delay)
{
    struct fastd_peer *c = mem_array(FASTD_MOST, sizeof *c);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, got[256];
    int poll = epoll_create1(0), one = 1;
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        int n = epoll_wait(poll, got, 256, delay > 0 ? 1 : 1000);
        for (int i = 0; i < n; i++) {
            int fd = got[i].data.fd;
            if (fd != listener) {
                fastd_receive(&c[fd], fd, delay);
                continue;
            }
            fd = accept(listener, NULL, NULL);
            if (fd < 0 || fd >= FASTD_MOST)
                continue;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            e.data.fd = fd;
            epoll_ctl(poll, EPOLL_CTL_ADD, fd, &e);
        }
        double now = clock_now();
        for (int fd = 0; delay > 0 && fd < FASTD_MOST; fd++)
            if (c[fd].due > 0 && c[fd].due <= now) {
                c[fd].due = 0;
                fastd_reply(fd);
            }
    }
}

__attribute__((unused)) static pid_t fastd_start(double delay, int *port)
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
        fastd_serve(fd, delay);
        _exit(0);
    }
    close(fd);
    return pid;
}

/* ---- clients -------------------------------------------------------------------------------- */

struct fastd_cost {
    double wall, cpu;
    long rss_kib; /* highest; at least what the caller had when it forked */
    int status;
};

__attribute__((unused)) static struct fastd_cost fastd_run(char *const argv[])
{
    struct fastd_cost c = {0};
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

/* Items for any client and responses for us: texts of the size of the instruction data. Written piece
 * by piece, so that the caller stays small. */
__attribute__((unused)) static int fastd_inputs(const char *dir, int n, struct err *e)
{
    char path[300], id[24], text[120];
    struct file_out f = {0};
    struct buf b = {0};
    snprintf(path, sizeof path, "%s/r%d.msgpack", dir, n);
    struct records *w = records_open(path, &response_schema, RECORD_WRITE, e);
    snprintf(path, sizeof path, "%s/items%d.jsonl", dir, n);
    int rc = !w || file_create(&f, path, e);
    for (int i = 0; rc == 0 && i < n; i++) {
        buf_cut(&b, 0);
        buf_printf(&b,
                   "{\"id\":\"i%d\",\"instruction\":\"Rewrite sentence %d so that it stands in the "
                   "passive voice.\",\"input\":\"\",\"output\":\"Sentence %d was rewritten.\","
                   "\"answer\":\"The sentence %d has been rewritten in the passive voice.\"}\n",
                   i, i, i, i);
        snprintf(id, sizeof id, "i%d", i);
        snprintf(text, sizeof text, "The sentence %d has been rewritten in the passive voice.", i);
        struct response r = {.item = str_z(id),
                             .text = str_z(text),
                             .tokens_in = FIELD_NONE_I64,
                             .tokens_out = FIELD_NONE_I64};
        rc = records_append(w, &r, e) || file_puts(&f, buf_str(&b), e);
    }
    buf_release(&b);
    if (rc) {
        records_abort(w);
        file_abort(&f);
        return -1;
    }
    return records_close(w, e) || file_commit(&f, e) ? -1 : 0;
}

#endif

/* httpd: a loopback HTTP/1.1 server that misbehaves by script. Only tests use it.
 *
 *   httpd SCRIPT [--log FILE] [--seconds 60] [--port 0]
 *
 * It listens on 127.0.0.1, prints its port and a newline, and ends when its stdin closes or the
 * seconds are over, so nothing is left running. Each connection has a thread; connections are kept
 * alive. The script is read once. A block begins with "on METHOD PATH" ("*" for either, PATH may
 * end in "*") and holds directives, one a line; "#" begins a comment line:
 *
 *   match TEXT       only for requests whose body or head holds TEXT (several: all of them)
 *   times N          answers N requests, then the next fitting block does (default 1, and for ever
 *                    when no later block fits)
 *   status N         default 200
 *   header NAME: V   any number
 *   body TEXT        appended; \n \r \t \0 \\ \xHH are read, other text is taken as it stands
 *   repeat N TEXT    TEXT N times, appended
 *   file PATH        a file's bytes, appended
 *   echo             the request's body, appended
 *   length N         claims this Content-Length, true or not
 *   chunked          sends chunks of at most 1000 bytes
 *   cut N            closes after N bytes of the body (chunked: without the end)
 *   delay S          waits before the answer     drip N S   N bytes at a time, S seconds between
 *   hang             never answers               close      closes without an answer
 *   reset            a close is a reset          http10     HTTP/1.0, no length, ends by closing
 *   raw TEXT         exactly these bytes, then closes
 *   range            honours "Range: bytes=N-", with If-Range against etag or modified
 *   etag TEXT        sent as ETag                modified TEXT    sent as Last-Modified
 *
 * The log is JSON lines: n, connection, active (requests in progress, this one too), t (seconds),
 * method, path, block (line of its "on", 0: none fitted and 404 was sent), headers (one string, as
 * they came), body. Bytes above 126 are written as \u00XX of the byte.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

enum { MAX_BLOCKS = 512, MAX_MATCH = 4 };

struct block {
    int line, status;
    char *method, *path, *match[MAX_MATCH], *etag, *modified;
    int n_match;
    struct buf headers, body, raw;
    int64_t times, used, claim, cut, drip;
    double delay, drip_s;
    bool chunked, hang, close, reset, http10, range, echo, is_raw, times_set;
};

struct request {
    struct buf head, body;
    struct str method, path;
};

static struct {
    struct block b[MAX_BLOCKS];
    int n, connections, active, requests;
    FILE *log;
    double t0;
    pthread_mutex_t lock;
} S = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void snooze(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
}

/* ---- the script ---- */

static void unescape(struct str s, struct buf *out)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '\\' || i + 1 == s.n) {
            buf_addc(out, s.p[i]);
            continue;
        }
        char c = s.p[++i];
        if (c == 'x' && i + 2 < s.n) {
            char hex[3] = {s.p[i + 1], s.p[i + 2], 0};
            buf_addc(out, (char)strtol(hex, NULL, 16));
            i += 2;
        } else {
            buf_addc(out, c == 'n'   ? '\n'
                          : c == 'r' ? '\r'
                          : c == 't' ? '\t'
                          : c == '0' ? '\0'
                                     : c);
        }
    }
}

static char *own(struct str s)
{
    return mem_printf("%.*s", STR_ARG(s));
}

static double number(struct str s, int line)
{
    double v;
    if (str_f64(str_trim(s), &v) != 0) {
        fprintf(stderr, "httpd: line %d: \"%.*s\" is not a number\n", line, STR_ARG(s));
        _exit(2);
    }
    return v;
}

static bool flag(struct block *b, struct str word)
{
    struct {
        const char *name;
        bool *at;
    } flags[] = {{"chunked", &b->chunked}, {"hang", &b->hang},     {"close", &b->close},
                 {"reset", &b->reset},     {"http10", &b->http10}, {"range", &b->range},
                 {"echo", &b->echo}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (str_eqz(word, flags[i].name))
            return *flags[i].at = true;
    return false;
}

static void read_body_file(struct block *b, struct str path, int line)
{
    struct err e;
    struct buf f = {0};
    char *z = own(path);
    if (file_read(z, &f, 0, &e) != 0) {
        fprintf(stderr, "httpd: line %d: %s\n", line, e.msg);
        _exit(2);
    }
    buf_adds(&b->body, buf_str(&f));
    buf_release(&f);
    free(z);
}

static bool directive(struct block *b, struct str word, struct str rest, int line)
{
    if (str_eqz(word, "match") && b->n_match < MAX_MATCH)
        b->match[b->n_match++] = own(rest);
    else if (str_eqz(word, "times"))
        b->times = (int64_t)number(rest, line), b->times_set = true;
    else if (str_eqz(word, "status"))
        b->status = (int)number(rest, line);
    else if (str_eqz(word, "header"))
        unescape(rest, &b->headers), buf_addz(&b->headers, "\r\n");
    else if (str_eqz(word, "body"))
        unescape(rest, &b->body);
    else if (str_eqz(word, "raw"))
        unescape(rest, &b->raw), b->is_raw = true;
    else if (str_eqz(word, "file"))
        read_body_file(b, rest, line);
    else if (str_eqz(word, "length"))
        b->claim = (int64_t)number(rest, line);
    else if (str_eqz(word, "cut"))
        b->cut = (int64_t)number(rest, line);
    else if (str_eqz(word, "delay"))
        b->delay = number(rest, line);
    else if (str_eqz(word, "etag"))
        b->etag = own(rest);
    else if (str_eqz(word, "modified"))
        b->modified = own(rest);
    else if (str_eqz(word, "repeat")) {
        struct buf t = {0};
        int64_t n = (int64_t)number(str_cut(&rest, ' '), line);
        unescape(rest, &t);
        for (int64_t i = 0; i < n; i++)
            buf_adds(&b->body, buf_str(&t));
        buf_release(&t);
    } else if (str_eqz(word, "drip")) {
        b->drip = (int64_t)number(str_cut(&rest, ' '), line);
        b->drip_s = number(rest, line);
    } else
        return flag(b, word);
    return true;
}

static int read_script(const char *path)
{
    struct buf text = {0};
    struct err e;
    struct block *b = NULL;
    int line = 0;

    if (file_read(path, &text, 0, &e) != 0) {
        fprintf(stderr, "httpd: %s\n", e.msg);
        return -1;
    }
    for (struct str rest = buf_str(&text); rest.n;) {
        struct str l = str_cut(&rest, '\n');
        line++;
        while (l.n && (*l.p == ' ' || *l.p == '\t'))
            l.p++, l.n--;
        if (!l.n || *l.p == '#')
            continue;
        struct str word = str_cut(&l, ' ');
        if (str_eqz(word, "on") && S.n < MAX_BLOCKS) {
            b = &S.b[S.n++];
            *b = (struct block){.line = line, .status = 200, .claim = -1, .cut = -1, .times = 1};
            b->method = own(str_cut(&l, ' '));
            b->path = own(str_trim(l));
        } else if (!b || !directive(b, word, l, line)) {
            fprintf(stderr, "httpd: line %d: \"%.*s\" is no directive\n", line, STR_ARG(word));
            return -1;
        }
    }
    buf_release(&text);
    return 0;
}

/* ---- requests ---- */

static bool fits(const struct block *b, const struct request *q)
{
    struct str p = str_z(b->path);

    if (strcmp(b->method, "*") != 0 && !str_eqz(q->method, b->method))
        return false;
    if (p.n && p.p[p.n - 1] == '*') {
        if (q->path.n < p.n - 1 || memcmp(q->path.p, p.p, p.n - 1) != 0)
            return false;
    } else if (!str_eqz(q->path, b->path)) {
        return false;
    }
    for (int i = 0; i < b->n_match; i++)
        if (str_find(buf_str(&q->body), str_z(b->match[i])) < 0 &&
            str_find(buf_str(&q->head), str_z(b->match[i])) < 0)
            return false;
    return true;
}

/* The first fitting block that is not used up; else the last fitting one without "times". */
static struct block *choose(const struct request *q)
{
    struct block *last = NULL;

    for (int i = 0; i < S.n; i++) {
        struct block *b = &S.b[i];
        if (!fits(b, q))
            continue;
        if (b->used < b->times) {
            b->used++;
            return b;
        }
        if (!b->times_set)
            last = b;
    }
    return last;
}

static void log_text(struct str s)
{
    fputc('"', S.log);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '"' || c == '\\')
            fprintf(S.log, "\\%c", c);
        else if (c < 32 || c > 126)
            fprintf(S.log, "\\u%04x", c);
        else
            fputc(c, S.log);
    }
    fputc('"', S.log);
}

static void log_request(const struct request *q, int connection, int block)
{
    struct str head = buf_str(&q->head);

    if (!S.log)
        return;
    str_cut(&head, '\n');
    fprintf(S.log, "{\"n\":%d,\"connection\":%d,\"active\":%d,\"t\":%.3f,\"block\":%d,\"method\":",
            S.requests, connection, S.active, now() - S.t0, block);
    log_text(q->method);
    fputs(",\"path\":", S.log);
    log_text(q->path);
    fputs(",\"headers\":", S.log);
    log_text(head);
    fputs(",\"body\":", S.log);
    log_text(buf_str(&q->body));
    fputs("}\n", S.log);
    fflush(S.log);
}

/* Value of a header of the request's head, or the empty str. */
static struct str header(const struct request *q, const char *name)
{
    struct str rest = buf_str(&q->head);

    while (rest.n) {
        struct str l = str_cut(&rest, '\n'), key = str_cut(&l, ':');
        if (key.n == strlen(name) && strncasecmp(key.p, name, key.n) == 0)
            return str_trim(l);
    }
    return (struct str){0};
}

/* False: the client is gone or sent nonsense. */
static bool read_request(int fd, struct request *q, struct buf *in)
{
    ptrdiff_t end;
    int64_t want = 0;
    char piece[16384];

    buf_cut(&q->head, 0);
    buf_cut(&q->body, 0);
    while ((end = str_find(buf_str(in), STR_LIT("\r\n\r\n"))) < 0 && in->n < 1 << 20) {
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        if (got <= 0)
            return false;
        buf_add(in, piece, (size_t)got);
    }
    if (end < 0)
        return false;
    buf_add(&q->head, in->p, (size_t)end + 2);
    struct str length = header(q, "Content-Length");
    if (length.n && (str_i64(length, &want) != 0 || want < 0 || want > 1 << 28))
        return false;
    while (in->n < (size_t)end + 4 + (size_t)want) {
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        if (got <= 0)
            return false;
        buf_add(in, piece, (size_t)got);
    }
    size_t used = (size_t)end + 4 + (size_t)want;
    if (want)
        buf_add(&q->body, in->p + end + 4, (size_t)want);
    memmove(in->p, in->p + used, in->n - used);
    buf_cut(in, in->n - used);
    struct str first = buf_str(&q->head);
    q->method = str_cut(&first, ' ');
    q->path = str_cut(&first, ' ');
    return true;
}

/* ---- answers ---- */

static bool put(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t got = send(fd, p, n, MSG_NOSIGNAL);
        if (got <= 0)
            return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

static bool put_body(int fd, const struct block *b, struct str body)
{
    size_t n = b->cut >= 0 && (size_t)b->cut < body.n ? (size_t)b->cut : body.n;
    size_t step = b->drip ? (size_t)b->drip : b->chunked ? 1000 : n;
    char size[32];

    for (size_t at = 0, k; at < n; at += k) {
        k = n - at < step ? n - at : step;
        if (b->drip && at)
            snooze(b->drip_s);
        snprintf(size, sizeof size, "%zx\r\n", k);
        if (b->chunked && !put(fd, size, strlen(size)))
            return false;
        if (!put(fd, body.p + at, k) || (b->chunked && !put(fd, "\r\n", 2)))
            return false;
    }
    if (b->cut >= 0)
        return false;
    return !b->chunked || put(fd, "0\r\n\r\n", 5);
}

/* Applies "Range: bytes=N-": the status, and the part of the body in *body. */
static int take_range(const struct block *b, const struct request *q, struct str *body,
                      struct buf *head)
{
    struct str range = header(q, "Range"), cond = header(q, "If-Range");
    int64_t from = 0;
    size_t all = body->n;

    if (!str_starts(range, "bytes=") || !str_ends(range, "-"))
        return b->status;
    if (cond.n && !(b->etag && str_eqz(cond, b->etag)) &&
        !(b->modified && str_eqz(cond, b->modified)))
        return b->status;
    if (str_i64((struct str){range.p + 6, range.n - 7}, &from) != 0)
        return b->status;
    if (from < 0 || (size_t)from >= all) {
        buf_printf(head, "Content-Range: bytes */%zu\r\n", all);
        *body = (struct str){"", 0};
        return 416;
    }
    buf_printf(head, "Content-Range: bytes %lld-%zu/%zu\r\n", (long long)from, all - 1, all);
    body->p += from;
    body->n -= (size_t)from;
    return 206;
}

/* True if the connection may go on. */
static bool answer(int fd, const struct block *b, const struct request *q)
{
    struct buf head = {0}, more = {0}, body = {0};
    bool ends = b->http10 || b->cut >= 0 || b->claim >= 0;

    if (b->delay > 0)
        snooze(b->delay);
    while (b->hang)
        snooze(3600);
    if (b->close)
        return false;
    if (b->is_raw) {
        put(fd, b->raw.p ? b->raw.p : "", b->raw.n);
        return false;
    }
    buf_adds(&body, buf_str(&b->body));
    if (b->echo)
        buf_adds(&body, buf_str(&q->body));
    struct str text = buf_str(&body);
    int status = b->range ? take_range(b, q, &text, &more) : b->status;
    buf_printf(&head, "HTTP/1.%d %d Scripted\r\n", !b->http10, status);
    buf_adds(&head, buf_str(&more));
    buf_adds(&head, buf_str(&b->headers));
    if (b->etag)
        buf_printf(&head, "ETag: %s\r\n", b->etag);
    if (b->modified)
        buf_printf(&head, "Last-Modified: %s\r\n", b->modified);
    if (b->chunked)
        buf_addz(&head, "Transfer-Encoding: chunked\r\n");
    else if (!b->http10)
        buf_printf(&head, "Content-Length: %lld\r\n",
                   b->claim >= 0 ? (long long)b->claim : (long long)text.n);
    buf_addz(&head, ends ? "Connection: close\r\n\r\n" : "\r\n");
    bool ok = put(fd, head.p, head.n);
    if (ok && !str_eqz(q->method, "HEAD"))
        ok = put_body(fd, b, text);
    buf_release(&head);
    buf_release(&more);
    buf_release(&body);
    return ok && !ends;
}

static void *serve(void *arg)
{
    static const struct block none = {.status = 404, .claim = -1, .cut = -1};
    int fd = (int)(intptr_t)arg;
    struct request q = {0};
    struct buf in = {0};
    const struct block *b = &none;
    bool more = true;

    pthread_mutex_lock(&S.lock);
    int connection = ++S.connections;
    pthread_mutex_unlock(&S.lock);
    while (more && read_request(fd, &q, &in)) {
        pthread_mutex_lock(&S.lock);
        S.requests++;
        S.active++;
        b = choose(&q);
        b = b ? b : &none;
        log_request(&q, connection, b->line);
        pthread_mutex_unlock(&S.lock);
        more = answer(fd, b, &q);
        pthread_mutex_lock(&S.lock);
        S.active--;
        pthread_mutex_unlock(&S.lock);
    }
    if (b->reset) {
        struct linger l = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    } else {
        shutdown(fd, SHUT_WR);
    }
    close(fd);
    buf_release(&in);
    buf_release(&q.head);
    buf_release(&q.body);
    return NULL;
}

static int listen_on(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&a, n) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0) {
        perror("httpd: listen");
        return -1;
    }
    printf("%d\n", ntohs(a.sin_port));
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv)
{
    double seconds = 60;
    int port = 0;

    signal(SIGPIPE, SIG_IGN);
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--log") == 0)
            S.log = fopen(argv[i + 1], "w");
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--port") == 0)
            port = (int)strtol(argv[i + 1], NULL, 10);
    }
    if (argc < 2 || read_script(argv[1]) != 0)
        return 2;
    S.t0 = now();
    int fd = listen_on(port);
    if (fd < 0)
        return 1;
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    for (double left; (left = S.t0 + seconds - now()) > 0;) {
        if (poll(p, 2, (int)(left * 1000) + 1) < 0 && errno != EINTR)
            break;
        char c;
        if (p[1].revents && read(0, &c, 1) <= 0)
            break;
        int peer = p[0].revents ? accept(fd, NULL, NULL) : -1;
        pthread_t t;
        if (peer >= 0 && pthread_create(&t, NULL, serve, (void *)(intptr_t)peer) == 0)
            pthread_detach(t);
        else if (peer >= 0)
            close(peer);
    }
    _exit(0); /* threads may hang by script */
}

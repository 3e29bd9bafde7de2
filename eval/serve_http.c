/* serve_http: the transport over libmicrohttpd, the only file that includes it.
 *
 * One thread of the library polls all connections. A request is collected up to the limit, becomes
 * an exchange, and its connection is suspended until there is something to send: suspended ones cost
 * nothing. wake() and rest() come with the server's lock held, so `suspended` is guarded by it.
 *
 * Distrust: what the head of a request tells is judged by eval/serve_screen.h; bodies end at the limit;
 * of too many connections the longest silent one goes (eval/serve_seats.h). Heads of up to 128 KiB reach
 * us and are refused in our own words; what is larger, or no HTTP, the library refuses in its own.
 */
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "eval/serve.h"
#include "eval/serve_screen.h"
#include "eval/serve_seats.h"

#define RESERVE 64 /* connections beyond the limit: for those told to go, and for /health */

struct http {
    struct MHD_Daemon *daemon;
    struct server *server;
    char *key; /* NULL: none */
    bool loopback;
    size_t max_body;
    atomic_int pending;
    struct seats seats; /* of the library's thread */
};
/* One request on a connection. */
struct link {
    struct http *h;
    struct MHD_Connection *conn;
    struct seat *seat;
    struct exchange *x;
    struct buf body;
    bool over, suspended;
};

/* ---- the exchange's hooks ------------------------------------------------------------------- */

static void wake(void *ctx)
{
    struct link *l = ctx;
    if (!l->suspended)
        return;
    l->suspended = false;
    MHD_resume_connection(l->conn);
}

static void rest(void *ctx)
{
    struct link *l = ctx;
    MHD_suspend_connection(l->conn);
    l->suspended = true;
}

/* Of a suspended connection, which the library does not look at: has its peer closed? */
static bool gone(void *ctx)
{
    struct link *l = ctx;
    char c;
    if (!l->suspended)
        return false;
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(l->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    return i && recv(i->connect_fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* ---- answering ------------------------------------------------------------------------------ */

static enum MHD_Result give(struct link *l, int status, struct MHD_Response *r, const char *type,
                            const char *allow)
{
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (allow)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, allow);
    if (status == 401)
        MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == 429 || status == 503)
        MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    enum MHD_Result rc = MHD_queue_response(l->conn, (unsigned)status, r);
    MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result refuse(struct link *l, int status, const char *why)
{
    char *body = serve_refusal(status, why);
    return give(l, status,
                MHD_create_response_from_buffer(strlen(body), body, MHD_RESPMEM_MUST_FREE),
                "application/json", NULL);
}

static enum MHD_Result give_body(struct link *l)
{
    struct str b = exchange_body(l->x);
    return give(l, exchange_status(l->x),
                MHD_create_response_from_buffer(b.n, (void *)(uintptr_t)b.p, MHD_RESPMEM_MUST_COPY),
                "application/json", exchange_allow(l->x));
}

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct link *l = cls;
    (void)pos;
    ssize_t n = exchange_read(l->x, buf, max);
    return n < 0 ? MHD_CONTENT_READER_END_OF_STREAM : n;
}

static enum MHD_Result give_stream(struct link *l)
{
    return give(l, exchange_status(l->x),
                MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, l, NULL),
                "text/event-stream", NULL);
}

/* ---- reading -------------------------------------------------------------------------------- */

static struct str header(struct link *l, const char *name)
{
    return str_z(MHD_lookup_connection_value(l->conn, MHD_HEADER_KIND, name));
}

static enum MHD_Result count_body_headers(void *cls, enum MHD_ValueKind kind, const char *name,
                                          const char *value)
{
    struct screen_head *k = cls;
    (void)kind;
    (void)value;
    k->lengths += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    k->encodings += strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
    return MHD_YES;
}

/* 0, or the status of a refusal that needs no body to be read. */
static int screen(struct link *l, const char *url, const char **why)
{
    struct http *h = l->h;
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(l->conn, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct screen_rule rule = {h->key, h->loopback, (int64_t)h->max_body};
    struct screen_head k = {.path = str_z(url),
                            .host = header(l, MHD_HTTP_HEADER_HOST),
                            .authorization = header(l, MHD_HTTP_HEADER_AUTHORIZATION),
                            .length = header(l, MHD_HTTP_HEADER_CONTENT_LENGTH),
                            .encoding = header(l, MHD_HTTP_HEADER_TRANSFER_ENCODING),
                            .url = (int64_t)strlen(url),
                            .head = size ? (int64_t)size->header_size : 0};
    MHD_get_connection_values(l->conn, MHD_HEADER_KIND, count_body_headers, &k);
    int status = serve_screen(&rule, &k, why);
    if (!status && seats_full(&h->seats) && strcmp(url, "/health") != 0) {
        *why = "all connections of this server are in use; ask again";
        status = 503;
    }
    return status;
}

static enum MHD_Result start(struct link *l, const char *url, const char *method)
{
    struct exchange_hooks hooks = {wake, rest, gone, l};
    struct serve_query q = {.method = str_z(method),
                            .path = str_z(url),
                            .host = header(l, MHD_HTTP_HEADER_HOST),
                            .authorization = header(l, MHD_HTTP_HEADER_AUTHORIZATION),
                            .content_type = header(l, MHD_HTTP_HEADER_CONTENT_TYPE),
                            .body = buf_str(&l->body)};
    if (l->over)
        return refuse(l, 413, "the body is larger than this server takes");
    l->x = server_open(l->h->server, &q);
    buf_release(&l->body);
    if (exchange_ended(l->x))
        return give_body(l);
    seats_busy(&l->h->seats, l->seat);
    if (exchange_stream(l->x)) {
        server_start(l->x, &hooks);
        return give_stream(l);
    }
    rest(l); /* before anybody can wake it */
    server_start(l->x, &hooks);
    return MHD_YES;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *conn, const char *url,
                              const char *method, const char *version, const char *data, size_t *n,
                              void **mine)
{
    struct http *h = cls;
    struct link *l = *mine;
    const char *why;
    (void)version;
    if (!l) {
        l = mem_zero(sizeof *l);
        l->h = h;
        l->conn = conn;
        l->seat = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
        seats_idle(&h->seats, l->seat);
        l->body.max = h->max_body;
        *mine = l;
        atomic_fetch_add(&h->pending, 1);
        int status = screen(l, url, &why);
        return status ? refuse(l, status, why) : MHD_YES;
    }
    if (*n) {
        if (!l->over && buf_add(&l->body, data, *n))
            l->over = true;
        seats_idle(&h->seats, l->seat);
        *n = 0;
        return MHD_YES;
    }
    if (!l->x)
        return start(l, url, method);
    return exchange_ended(l->x) ? give_body(l) : MHD_NO;
}

static void completed(void *cls, struct MHD_Connection *conn, void **mine,
                      enum MHD_RequestTerminationCode why)
{
    struct http *h = cls;
    struct link *l = *mine;
    (void)conn;
    (void)why;
    if (!l)
        return;
    if (l->x)
        exchange_drop(l->x);
    seats_idle(&h->seats, l->seat);
    buf_release(&l->body);
    free(l);
    *mine = NULL;
    atomic_fetch_sub(&h->pending, 1);
}

/* A connection begins or ends. Closing the socket of the longest silent one makes the library end it. */
static void connected(void *cls, struct MHD_Connection *conn, void **mine,
                      enum MHD_ConnectionNotificationCode what)
{
    struct http *h = cls;
    struct seat *x = *mine;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (x)
            seats_leave(&h->seats, x);
        free(x);
        *mine = NULL;
        return;
    }
    *mine = x = mem_zero(sizeof *x);
    struct seat *goes = seats_take(
        &h->seats, x, MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    if (goes)
        shutdown(goes->fd, SHUT_RDWR);
}

/* ---- opening -------------------------------------------------------------------------------- */

static void complain(void *ctx, const char *fmt, va_list ap)
{
    char line[400];
    (void)ctx;
    vsnprintf(line, sizeof line, fmt, ap);
    log_debug("libmicrohttpd: %s", line);
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static int take_key(struct http *h, const struct serve_options *o, struct err *e)
{
    struct arena a = {0};
    const char *name = str_dup(&a, o->key_env), *key = getenv(name);
    int rc = 0;
    if (key && *key)
        h->key = mem_strdup(key);
    if (!h->key && !h->loopback)
        rc =
            err_code(e, EXIT_USAGE,
                     "%.*s can be reached from elsewhere: set a key in the environment variable %s",
                     STR_ARG(o->host), name);
    arena_release(&a);
    return rc;
}

static int listen_on(struct http *h, const struct addrinfo *at, const struct serve_options *o,
                     struct err *e)
{
    unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ITC | MHD_USE_ERROR_LOG;
    if (at->ai_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    h->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, handle, h, MHD_OPTION_EXTERNAL_LOGGER, complain,
                         NULL, MHD_OPTION_SOCK_ADDR, at->ai_addr, MHD_OPTION_NOTIFY_COMPLETED,
                         completed, h, MHD_OPTION_NOTIFY_CONNECTION, connected, h,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->connections + RESERVE,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)4 * SCREEN_HEAD,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(o->timeout < 1 ? 1 : o->timeout),
                         MHD_OPTION_END); /* its default keeps a second server off the port */
    if (!h->daemon && errno == EADDRINUSE)
        return err_set(e, "listen on %.*s port %lld: the port is in use; give another with --port",
                       STR_ARG(o->host), (long long)o->port);
    if (!h->daemon)
        return err_sys(e, "listen on %.*s port %lld", STR_ARG(o->host), (long long)o->port);
    return 0;
}

static void http_close(void *t)
{
    struct http *h = t;
    if (!h)
        return;
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    if (h->key)
        memset(h->key, 0, strlen(h->key));
    free(h->key);
    free(h);
}

static int http_open(void **t, struct server *s, const struct serve_options *o, int *port,
                     struct err *e)
{
    struct http *h = mem_zero(sizeof *h);
    struct addrinfo want = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                            .ai_socktype = SOCK_STREAM},
                    *at = NULL;
    struct arena a = {0};
    bool local = str_eqz(o->host, "localhost");
    const char *host = local ? "127.0.0.1" : str_dup(&a, o->host);
    int rc = getaddrinfo(host, arena_printf(&a, "%lld", (long long)o->port), &want, &at);
    h->server = s;
    h->max_body = (size_t)o->max_body;
    h->seats.max = o->connections;
    if (rc) {
        rc = err_code(e, EXIT_USAGE, "--host %s is no address like 127.0.0.1 or ::1", host);
    } else {
        h->loopback = is_loopback(at->ai_addr);
        rc = take_key(h, o, e) || listen_on(h, at, o, e) ? -1 : 0;
        freeaddrinfo(at);
    }
    arena_release(&a);
    if (rc) {
        http_close(h);
        return -1;
    }
    *port = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    *t = h;
    return 0;
}

static void http_quiet(void *t)
{
    struct http *h = t;
    MHD_socket listening = MHD_quiesce_daemon(h->daemon);
    if (listening != MHD_INVALID_SOCKET)
        close(listening);
}

static int http_pending(void *t)
{
    struct http *h = t;
    return atomic_load(&h->pending);
}

extern const struct serve_transport serve_http;
const struct serve_transport serve_http = {
    .name = "http",
    .open = http_open,
    .quiet = http_quiet,
    .pending = http_pending,
    .close = http_close,
};

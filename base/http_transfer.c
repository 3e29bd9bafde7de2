/* http_transfer: see base/http_transfer.h. */
#include "base/http_transfer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

enum { MAX_REDIRECTS = 8 };

static const char *const head_names[HEADS] = {"content-type",   "retry-after",   "retry-after-ms",
                                              "x-should-retry", "content-range", "etag",
                                              "last-modified",  "content-length"};

/* ---- what curl calls ---- */

static size_t on_head(char *p, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    struct str line = {p, size * n}, key;

    if (str_starts(line, "HTTP/")) { /* a new head: a redirect's or an interim one is over */
        for (int i = 0; i < HEADS; i++) {
            free(t->head[i]);
            t->head[i] = NULL;
        }
        t->limits.n = 0;
        return line.n;
    }
    struct str value = line;
    key = str_cut(&value, ':');
    for (int i = 0; i < HEADS; i++)
        if (strlen(head_names[i]) == key.n && strncasecmp(key.p, head_names[i], key.n) == 0) {
            value = str_trim(value);
            free(t->head[i]);
            t->head[i] = mem_printf("%.*s", STR_ARG(value));
        }
    http_limits_take(&t->limits, key, str_trim(value), t->clock->wall(t->clock));
    return line.n;
}

static const char *head_of(const struct transfer *t, int i)
{
    return t->head[i] ? t->head[i] : "";
}

static int give_head(struct transfer *t)
{
    long status = 0;
    struct http_head h = {.length = -1,
                          .content_range = head_of(t, HEAD_RANGE),
                          .etag = head_of(t, HEAD_ETAG),
                          .last_modified = head_of(t, HEAD_MODIFIED)};

    t->head_given = true;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    h.status = (int)status;
    if (str_i64(str_z(head_of(t, HEAD_LENGTH)), &h.length) != 0 || h.length < 0)
        h.length = -1;
    return t->sink.head(t->sink.ctx, &h);
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;

    n *= size;
    t->moved = clock_now();
    if (!t->to_sink)
        return buf_add(&t->reply, p, n) == 0 ? n : 0;
    if ((!t->head_given && give_head(t) != 0) || t->sink.data(t->sink.ctx, p, n) != 0) {
        t->given_up = true;
        return 0;
    }
    return n;
}

/* ---- one transfer ---- */

void transfer_free(struct transfer *t)
{
    if (t->easy)
        curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->headers);
    for (int i = 0; i < HEADS; i++)
        free(t->head[i]);
    buf_release(&t->body);
    buf_release(&t->reply);
    free(t->url);
    free(t->method);
    free(t->shown);
    free(t);
}

/* The URL must be absolute http or https; fills loopback and secret. */
static int check_url(struct transfer *t, struct err *e)
{
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL, *user = NULL;
    int ret = 0;

    if (!u || curl_url_set(u, CURLUPART_URL, t->url, 0) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) ||
        curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK) {
        ret = err_set(e, "\"%s\" is not an http or https URL", t->shown);
    } else {
        struct str h = str_z(host);
        t->loopback = str_eqz(h, "localhost") || str_ends(h, ".localhost") ||
                      str_starts(h, "127.") || str_eqz(h, "[::1]");
        /* A password in the URL is a key too. */
        t->secret = t->secret || curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_OK;
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(user);
    curl_url_cleanup(u);
    return ret;
}

static int add_header(struct transfer *t, const char *line, struct err *e)
{
    struct curl_slist *more;

    /* Often a key read from a file with its line feed; the value is never shown. */
    if (strpbrk(line, "\r\n"))
        return err_code(e, EXIT_USAGE, "%s: header \"%.*s\" holds a line break", t->shown,
                        (int)strcspn(line, ":\r\n"), line);
    more = curl_slist_append(t->headers, line);
    if (!more)
        return err_set(e, "%s: no memory for a header", t->shown);
    t->headers = more;
    return 0;
}

/* PROTOCOLS_STR came with 7.85 and the number-valued one is deprecated since: ask for what this
 * library has by name, so that one source builds with both. */
static void limit_protocols(CURL *c, const char *text, const char *number, bool plain_too)
{
    const struct curl_easyoption *o = curl_easy_option_by_name(text);
    CURLoption id;

    if (o) {
        id = o->id;
        curl_easy_setopt(c, id, plain_too ? "http,https" : "https");
    } else if ((o = curl_easy_option_by_name(number)) != NULL) {
        long mask = CURLPROTO_HTTPS | (plain_too ? CURLPROTO_HTTP : 0L);
        id = o->id;
        curl_easy_setopt(c, id, mask);
    }
}

static void set_options(struct transfer *t)
{
    CURL *c = t->easy;

    curl_easy_setopt(c, CURLOPT_URL, t->url);
    curl_easy_setopt(c, CURLOPT_PRIVATE, t);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->why);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "assay");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(t->connect_timeout * 1000));
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(t->timeout * 1000));
    curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_head);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    if (!t->to_sink) /* a gzip'ed answer is decoded; the cap counts what came out */
        curl_easy_setopt(c, CURLOPT_ACCEPT_ENCODING, "gzip, deflate");
    limit_protocols(c, "PROTOCOLS_STR", "PROTOCOLS", true);
    limit_protocols(c, "REDIR_PROTOCOLS_STR", "REDIR_PROTOCOLS",
                    !str_starts(str_z(t->url), "https:"));
    /* A key must not follow to another host, and a POST that turns into a GET is no answer. */
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, t->secret || !t->plain_get ? 0L : 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)MAX_REDIRECTS);
    if (t->loopback) /* whatever http_proxy says */
        curl_easy_setopt(c, CURLOPT_PROXY, "");
    if (t->method && strcasecmp(t->method, "HEAD") == 0) {
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    } else if (!t->plain_get) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body.n);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, t->body.p ? t->body.p : "");
        if (t->method)
            curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, t->method);
    }
}

struct transfer *transfer_new(const struct http_request *q, const struct http_sink *sink,
                              struct err *e)
{
    struct transfer *t = mem_zero(sizeof *t);
    struct buf shown = {0};

    http_show(q->url, &shown);
    t->shown = buf_take(&shown);
    t->url = mem_strdup(q->url);
    t->method = q->method ? mem_strdup(q->method) : NULL;
    t->secret = q->secret;
    t->plain_get = q->body.n == 0 && (!q->method || strcmp(q->method, "GET") == 0);
    t->timeout = q->timeout > 0 ? q->timeout : 600;
    t->connect_timeout = q->connect_timeout > 0 ? q->connect_timeout : 10;
    t->reply.max = q->max_body ? q->max_body : (size_t)16 << 20;
    buf_adds(&t->body, q->body);
    if (sink) {
        t->sink = *sink;
        t->to_sink = true;
    }
    if (check_url(t, e) != 0)
        goto fail;
    /* Without this curl waits a second for a "100 Continue" that many servers never send. */
    if (add_header(t, "Expect:", e) != 0)
        goto fail;
    if (sink && add_header(t, "Accept-Encoding: identity", e) != 0)
        goto fail;
    for (int i = 0; q->headers && q->headers[i]; i++)
        if (add_header(t, q->headers[i], e) != 0)
            goto fail;
    t->easy = curl_easy_init();
    if (!t->easy) {
        err_set(e, "%s: curl cannot start a request", t->shown);
        goto fail;
    }
    set_options(t);
    return t;
fail:
    transfer_free(t);
    return NULL;
}

/* ---- why it failed ---- */

static char *failure_of(struct transfer *t, CURLcode rc, struct http_reply *r)
{
    double connected = 0;
    long redirects = 0;

    curl_easy_getinfo(t->easy, CURLINFO_CONNECT_TIME, &connected);
    curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_COUNT, &redirects);
    switch (rc) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        r->refused = true;
        return mem_printf("no address is known for the host of %s", t->shown);
    case CURLE_COULDNT_CONNECT:
        r->refused = true;
        return mem_printf("could not connect to %s", t->shown);
    case CURLE_OPERATION_TIMEDOUT:
        r->timed_out = true;
        r->refused = connected <= 0;
        if (r->refused)
            return mem_printf("could not connect to %s in time", t->shown);
        return mem_printf("no whole answer from %s within %g s", t->shown, t->timeout);
    case CURLE_WRITE_ERROR:
        if (t->reply.over) {
            r->too_big = true;
            return mem_printf("the answer of %s is longer than %zu bytes", t->shown, t->reply.max);
        }
        return mem_printf("the answer of %s was not taken", t->shown);
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        return mem_printf("%s closed the connection before its answer was whole", t->shown);
    case CURLE_TOO_MANY_REDIRECTS:
        return mem_printf("%s redirects more than %d times", t->shown, MAX_REDIRECTS);
    case CURLE_UNSUPPORTED_PROTOCOL: /* also what an answer without an HTTP head gives */
        if (redirects == 0)
            return mem_printf("%s does not answer in HTTP", t->shown);
        return mem_printf("%s redirects to something that is not allowed here", t->shown);
    case CURLE_BAD_CONTENT_ENCODING:
        return mem_printf("the compressed answer of %s is damaged", t->shown);
    default: /* curl's own texts name hosts, never headers; URLs with secrets are left out */
        return mem_printf("%s: %s", t->shown,
                          t->secret || !t->why[0] ? curl_easy_strerror(rc) : t->why);
    }
}

void transfer_finish(struct transfer *t, CURLcode rc)
{
    struct http_reply r = {.retry_after = -1, .reset = -1, .reset_used_up = -1, .should_retry = -1};
    long status = 0;
    char *failure = NULL;

    if (rc == CURLE_OK && t->to_sink && !t->head_given && give_head(t) != 0) {
        t->given_up = true;
        rc = CURLE_WRITE_ERROR;
    }
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    r.seconds = clock_now() - t->started;
    r.content_type = head_of(t, HEAD_TYPE);
    if (t->stalled) {
        r.timed_out = true;
        failure = mem_printf("%s stopped in the middle of its answer", t->shown);
    } else if (rc != CURLE_OK) {
        failure = failure_of(t, rc, &r);
    } else {
        r.status = (int)status;
        r.body = buf_str(&t->reply);
        r.retry_after = http_retry_after(head_of(t, HEAD_AFTER_MS), head_of(t, HEAD_AFTER),
                                         t->clock->wall(t->clock));
        r.reset = http_limits_wait(&t->limits, false);
        r.reset_used_up = http_limits_wait(&t->limits, true);
        if (strcasecmp(head_of(t, HEAD_SHOULD), "true") == 0)
            r.should_retry = 1;
        else if (strcasecmp(head_of(t, HEAD_SHOULD), "false") == 0)
            r.should_retry = 0;
    }
    r.failure = failure;
    t->done(t->ctx, &r);
    free(failure);
    transfer_free(t);
}

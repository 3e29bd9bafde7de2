/* http: many requests at once over curl_multi.
 *
 * Requests wait in a queue of our own, because curl counts the time in its queue as part of the
 * timeout. Finished transfers are reported before the next ones start, so done() has returned before
 * a connection is used again. A stall is watched here and not by curl's low-speed limit: a judge may
 * think for minutes before its first byte, but a body that stops half way is dead.
 */
#include "base/http.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/http_transfer.h"
#include "base/mem.h"

static const double STALL = 60; /* seconds without a byte inside a body */

struct http {
    CURLM *multi;
    struct clock *clock;
    int max, active, waiting;
    struct transfer *run, *first, *last; /* running; the queue */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start_curl(void)
{
    struct sigaction old;

    curl_global_init(CURL_GLOBAL_ALL);
    /* NOSIGNAL leaves SIGPIPE to us: a server that hangs up must not end the tool. */
    if (sigaction(SIGPIPE, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

const char *http_version(void)
{
    return curl_version_info(CURLVERSION_NOW)->version;
}

/* ---- texts ---- */

void http_show(const char *url, struct buf *out)
{
    const char *host = strstr(url, "://");
    size_t end;

    host = host ? host + 3 : url;
    buf_add(out, url, (size_t)(host - url));
    end = strcspn(host, "/?#");
    for (const char *at; (at = memchr(host, '@', end)) != NULL;) {
        end -= (size_t)(at + 1 - host);
        host = at + 1;
    }
    buf_add(out, host, strcspn(host, "?#"));
}

double http_retry_after(const char *ms, const char *after, double wall)
{
    double v;

    if (str_f64(str_trim(str_z(ms)), &v) == 0)
        return v > 0 ? v / 1000 : 0;
    if (str_f64(str_trim(str_z(after)), &v) == 0)
        return v > 0 ? v : 0;
    time_t t = *after ? curl_getdate(after, NULL) : (time_t)-1;
    if (t == (time_t)-1)
        return -1;
    return (double)t > wall ? (double)t - wall : 0;
}

/* ---- many at once ---- */

struct http *http_open(int max_connections, struct clock *clock, struct err *e)
{
    struct http *h = mem_zero(sizeof *h);

    pthread_once(&once, start_curl);
    h->clock = clock ? clock : clock_system();
    h->max = max_connections > 0 ? max_connections : 1;
    h->multi = curl_multi_init();
    if (!h->multi) {
        err_set(e, "curl cannot start");
        free(h);
        return NULL;
    }
    curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)h->max);
    return h;
}

void http_close(struct http *h)
{
    struct transfer *t;

    if (!h)
        return;
    while ((t = h->run)) {
        h->run = t->next;
        curl_multi_remove_handle(h->multi, t->easy);
        transfer_free(t);
    }
    while ((t = h->first)) {
        h->first = t->next;
        transfer_free(t);
    }
    curl_multi_cleanup(h->multi);
    free(h);
}

int http_pending(const struct http *h)
{
    return h->active + h->waiting;
}

int http_send_sink(struct http *h, const struct http_request *q, const struct http_sink *sink,
                   http_done_fn *done, void *ctx, struct err *e)
{
    struct transfer *t = transfer_new(q, sink, e);

    if (!t)
        return -1;
    t->clock = h->clock;
    t->done = done;
    t->ctx = ctx;
    *(h->first ? &h->last->next : &h->first) = t;
    h->last = t;
    h->waiting++;
    return 0;
}

int http_send(struct http *h, const struct http_request *q, http_done_fn *done, void *ctx,
              struct err *e)
{
    return http_send_sink(h, q, NULL, done, ctx, e);
}

static int start_waiting(struct http *h, struct err *e)
{
    while (h->active < h->max && h->first) {
        struct transfer *t = h->first;
        CURLMcode rc = curl_multi_add_handle(h->multi, t->easy);
        if (rc != CURLM_OK)
            return err_set(e, "curl: %s", curl_multi_strerror(rc));
        h->first = t->next;
        h->waiting--;
        t->next = h->run;
        h->run = t;
        h->active++;
        t->started = clock_now();
    }
    return 0;
}

/* Takes t out of the running ones and reports it. */
static void end_transfer(struct http *h, struct transfer *t, CURLcode rc)
{
    struct transfer **at = &h->run;

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    t->next = NULL;
    h->active--;
    curl_multi_remove_handle(h->multi, t->easy);
    transfer_finish(t, rc);
}

static struct transfer *find_stalled(struct http *h)
{
    double now = clock_now();

    for (struct transfer *t = h->run; t; t = t->next) {
        double since = t->moved > 0 ? t->moved : t->started;
        double limit = t->sink.stall_timeout;
        if ((limit > 0 && now - since > limit) ||
            (limit <= 0 && t->moved > 0 && now - since > STALL))
            return t;
    }
    return NULL;
}

/* Reports everything that is over; how many that were. */
static int report(struct http *h)
{
    int n = 0, left;
    CURLMsg *m;
    struct transfer *t;

    while ((m = curl_multi_info_read(h->multi, &left))) {
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode rc = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        end_transfer(h, t, rc);
        n++;
    }
    for (; (t = find_stalled(h)) != NULL; n++) {
        t->stalled = true;
        end_transfer(h, t, CURLE_OPERATION_TIMEDOUT);
    }
    return n;
}

int http_poll(struct http *h, double seconds, struct err *e)
{
    double until = clock_now() + seconds;
    int running;

    for (;;) {
        if (start_waiting(h, e) != 0)
            return -1;
        CURLMcode rc = curl_multi_perform(h->multi, &running);
        if (rc != CURLM_OK)
            return err_set(e, "curl: %s", curl_multi_strerror(rc));
        if (report(h) > 0 || http_pending(h) == 0)
            return 0;
        double left = until - clock_now();
        if (left <= 0)
            return 0;
        int ms =
            left > 0.25 ? 250 : (int)(left * 1000) + 1; /* stalls are looked at 4 times a second */
        rc = curl_multi_poll(h->multi, NULL, 0, ms, NULL);
        if (rc != CURLM_OK)
            return err_set(e, "curl: %s", curl_multi_strerror(rc));
    }
}

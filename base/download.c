/* download: one URL to one file, in as many attempts as it takes.
 *
 * The bytes go to PATH.part; PATH.part.meta holds what the server called them (ETag or date, and
 * the length), so that a later attempt, also of another process, asks for the rest with Range and
 * If-Range (RFC 9110 13.1.5, 14). A server that has other content or knows no ranges answers 200 and
 * the file starts over. Without a validator a rest is asked for only when a SHA-256 is known, which
 * then decides; if it fails on a resumed file, one clean attempt follows.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/file_os.h"
#include "base/hash.h"
#include "base/http_private.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"

static const double LONGEST_WAIT = 120; /* a server that asks for more is not waited for */

struct job {
    const struct http_download *d;
    struct clock *clock;
    struct http *http;
    char *shown, *part, *meta;
    int fd;
    int64_t have, total, best; /* bytes in the part; of the whole, -1 unknown; most ever had */
    struct buf validator;      /* what If-Range sends; empty: none known */
    bool asked_range, resumed, over, wrong_range, clean; /* clean: started over for the hash */
    bool taking;   /* the body is content, not an error page */
    bool answered; /* done() came */
    int status;
    double retry_after;
    bool interrupted;
    struct err disk;    /* set when our side failed: no retry helps */
    struct buf failure; /* of the last attempt */
};

/* ---- the meta file: two lines, "length N" (-1 unknown) and "validator TEXT" ---- */

static void meta_read(struct job *j)
{
    struct buf text = {0};
    struct err e;

    buf_cut(&j->validator, 0);
    j->total = -1;
    if (file_read(j->meta, &text, 4096, &e) == 0) {
        struct str rest = buf_str(&text);
        while (rest.n) {
            struct str value = str_cut(&rest, '\n'), key = str_cut(&value, ' ');
            if (str_eqz(key, "length") && (str_i64(value, &j->total) != 0 || j->total < 0))
                j->total = -1;
            else if (str_eqz(key, "validator"))
                buf_adds(&j->validator, value);
        }
    }
    buf_release(&text);
}

static int meta_write(struct job *j, const struct http_head *h)
{
    struct buf text = {0};
    /* If-Range takes strong validators only; a date will do where there is no such tag. */
    bool strong = h->etag[0] && strncmp(h->etag, "W/", 2) != 0;
    const char *v = strong ? h->etag : h->last_modified;

    buf_cut(&j->validator, 0);
    buf_addz(&j->validator, v);
    buf_printf(&text, "length %lld\nvalidator %s\n", (long long)h->length, v);
    int ret = file_write_all(j->meta, buf_str(&text), &j->disk);
    buf_release(&text);
    return ret;
}

static void forget(struct job *j)
{
    unlink(j->meta);
    if (ftruncate(j->fd, 0) == 0)
        j->have = 0;
    buf_cut(&j->validator, 0);
    j->total = -1;
}

/* ---- what the answer brings ---- */

static int too_long(struct job *j, int64_t n)
{
    j->over = true;
    return err_set(&j->disk, "%s has at least %lld bytes, more than the %lld allowed", j->shown,
                   (long long)n, (long long)j->d->max_bytes);
}

/* "bytes FIRST-LAST/TOTAL" must begin where the part ends. */
static bool right_range(struct job *j, const char *text)
{
    struct str rest = str_z(text), first, last;
    int64_t a, b, total = -1;

    if (!str_starts(rest, "bytes "))
        return false;
    str_cut(&rest, ' ');
    first = str_cut(&rest, '-');
    last = str_cut(&rest, '/');
    if (str_i64(first, &a) != 0 || str_i64(last, &b) != 0 || a != j->have || b < a)
        return false;
    if (!str_eqz(rest, "*") && (str_i64(rest, &total) != 0 || total <= b))
        return false;
    if (j->total >= 0 && total >= 0 && total != j->total)
        return false;
    if (total >= 0)
        j->total = total;
    return true;
}

static int on_head(void *ctx, const struct http_head *h)
{
    struct job *j = ctx;
    int64_t room = disk_free(j->part);

    j->taking = false;
    j->resumed = false;
    if (h->status == 206) {
        if (!j->asked_range || !right_range(j, h->content_range)) {
            j->wrong_range = true;
            return -1;
        }
        j->resumed = j->taking = true;
    } else if (h->status == 200) {
        j->taking = true;
        j->total = h->length;
        if (ftruncate(j->fd, 0) != 0)
            return err_sys(&j->disk, "empty %s", j->part);
        j->have = 0;
        if (meta_write(j, h) != 0)
            return -1;
    }
    if (!j->taking)
        return 0;
    if (j->d->max_bytes > 0 && j->total > j->d->max_bytes)
        return too_long(j, j->total);
    if (j->total >= 0 && room >= 0 && j->total - j->have > room)
        return err_set(&j->disk, "%s needs %lld bytes, but only %lld are free on that disk",
                       j->d->path, (long long)(j->total - j->have), (long long)room);
    return 0;
}

static int on_data(void *ctx, const void *p, size_t n)
{
    struct job *j = ctx;

    if (!j->taking)
        return 0; /* an error page */
    if (j->d->max_bytes > 0 && j->have + (int64_t)n > j->d->max_bytes)
        return too_long(j, j->have + (int64_t)n);
    if (file_append(j->fd, p, n, j->part, &j->disk) != 0)
        return -1;
    j->have += (int64_t)n;
    if (j->d->progress)
        j->d->progress(j->d->ctx, j->have, j->total);
    return 0;
}

static void on_done(void *ctx, const struct http_reply *r)
{
    struct job *j = ctx;

    j->answered = true;
    j->status = r->status;
    j->retry_after = r->retry_after;
    buf_cut(&j->failure, 0);
    if (r->failure)
        buf_addz(&j->failure, r->failure);
    else
        buf_printf(&j->failure, "%s: the server answers with status %d", j->shown, r->status);
}

/* One request. 0: it was answered or failed (see j); -1: could not even be asked. */
static int attempt(struct job *j, struct err *e)
{
    char *range = NULL, *cond = NULL;
    const char *headers[3] = {0};
    struct http_request q = {.url = j->d->url, .headers = headers, .timeout = 7 * 86400.0};
    struct http_sink sink = {on_head, on_data, j, 0};

    sink.stall_timeout = j->d->stall_timeout > 0 ? j->d->stall_timeout : 60;
    j->answered = j->wrong_range = false;
    j->status = 0;
    j->asked_range = j->have > 0 && (j->validator.n || j->d->sha256);
    if (j->asked_range) {
        headers[0] = range = mem_printf("Range: bytes=%lld-", (long long)j->have);
        if (j->validator.n)
            headers[1] = cond = mem_printf("If-Range: %s", j->validator.p);
    }
    int ret = http_send_sink(j->http, &q, &sink, on_done, j, e);
    while (ret == 0 && !j->answered && !j->interrupted) {
        ret = http_poll(j->http, 0.5, e);
        j->interrupted = interrupt_raised();
    }
    free(range);
    free(cond);
    return ret;
}

/* ---- attempts ---- */

static bool worth_retrying(const struct job *j)
{
    int s = j->status;

    return s == 0 || s == 408 || s == 425 || s == 429 || s >= 500;
}

static void back_off(struct job *j, int failed)
{
    struct rng r = rng_make((uint64_t)getpid(), "download backoff", (uint64_t)failed);
    double wait = failed < 8 ? 0.5 * (double)(1 << failed) : 30;

    wait = (wait < 30 ? wait : 30) * (0.75 + 0.25 * rng_unit(&r));
    if (j->retry_after >= 0)
        wait = j->retry_after;
    log_info("%s; again in %.1f s, %lld bytes are kept", j->failure.p, wait, (long long)j->have);
    for (double step; wait > 0 && !interrupt_raised(); wait -= step) {
        step = wait < 0.5 ? wait : 0.5; /* an interrupt does not wait for the end of it */
        j->clock->sleep(j->clock, step);
    }
    j->interrupted = interrupt_raised();
}

/* 1: the part is complete; 0: try again (a failure to be counted if *count); -1: give up. */
static int judge_attempt(struct job *j, bool *count, struct err *e)
{
    *count = true;
    if (j->interrupted)
        return err_code(e, EXIT_INCOMPLETE, "interrupted; %lld bytes are kept in %s",
                        (long long)j->have, j->part);
    if (j->disk.msg[0]) {
        if (j->over) {
            forget(j);
            unlink(j->part);
        }
        *e = j->disk;
        return -1;
    }
    if (j->status == 200 || j->status == 206) {
        if (j->total < 0 || j->have == j->total)
            return 1;
        buf_cut(&j->failure, 0);
        buf_printf(&j->failure, "%s sent %lld of %lld bytes", j->shown, (long long)j->have,
                   (long long)j->total);
        if (j->have > j->total)
            forget(j);
        j->status = 0;
    }
    if (j->wrong_range || j->status == 416) {
        /* All of it may be here already: then nothing was left to send. */
        if (j->status == 416 && j->total >= 0 && j->have == j->total && j->asked_range) {
            j->resumed = true;
            return 1;
        }
        forget(j);
        *count = !j->asked_range; /* once for free: the next attempt asks for the whole */
        return 0;
    }
    if (!worth_retrying(j))
        return err_set(e, "%s", j->failure.p);
    if (j->retry_after > LONGEST_WAIT)
        return err_code(e, EXIT_INCOMPLETE, "%s and asks to wait %.0f s; %lld bytes are kept",
                        j->failure.p, j->retry_after, (long long)j->have);
    return 0;
}

static int fetch_part(struct job *j, struct err *e)
{
    int tries = j->d->tries > 0 ? j->d->tries : 5, failed = 0;

    for (;;) {
        bool count;
        if (attempt(j, e) != 0)
            return -1;
        int is = judge_attempt(j, &count, e);
        if (is != 0)
            return is < 0 ? -1 : 0;
        if (!count)
            continue;
        /* Progress is measured against the most ever had, so that a server which always starts
         * over and always cuts does not keep us for ever. */
        if (j->have > j->best) {
            j->best = j->have;
            failed = 0;
        }
        if (++failed >= tries)
            return err_code(e, EXIT_INCOMPLETE,
                            "%s (attempt %d without progress; %lld bytes are kept)", j->failure.p,
                            failed, (long long)j->have);
        back_off(j, failed - 1);
    }
}

/* Hash, name, done. 1: the file was wrong but resumed, a clean attempt is due. */
static int finish(struct job *j, char sha_out[65], struct err *e)
{
    char hex[SHA256_HEX];

    if (file_append_sync(j->fd, j->part, e) != 0 || sha256_file(j->part, hex, e) != 0)
        return -1;
    if (j->d->sha256 && strcasecmp(hex, j->d->sha256) != 0) {
        bool again = j->resumed && !j->clean;
        forget(j);
        if (again)
            return 1;
        unlink(j->part);
        return err_set(e, "%s: SHA-256 is %s, want %s; the download was removed", j->shown, hex,
                       j->d->sha256);
    }
    if (file_os()->rename(j->part, j->d->path) != 0)
        return err_sys(e, "rename to %s", j->d->path);
    unlink(j->meta);
    if (sha_out)
        memcpy(sha_out, hex, SHA256_HEX);
    return file_sync_dir_of(j->d->path, e);
}

static int run(struct job *j, char sha_out[65], struct err *e)
{
    int rc;

    if (file_append_open(j->part, -1, &j->fd, e) != 0)
        return -1;
    j->have = file_size(j->part);
    meta_read(j);
    if (j->total >= 0 && j->have > j->total)
        forget(j);
    if (j->have > 0)
        log_info("%lld bytes of %s are here already", (long long)j->have, j->shown);
    j->best = j->have;
    j->http = http_open(1, j->clock, e);
    if (!j->http)
        return -1;
    for (;;) {
        if (fetch_part(j, e) != 0)
            return -1;
        rc = finish(j, sha_out, e);
        if (rc != 1)
            return rc;
        log_info("%s: the resumed file has another SHA-256; once more from the start", j->shown);
        j->clean = true;
    }
}

int http_download(const struct http_download *d, char sha_out[65], struct err *e)
{
    struct job j = {.d = d, .fd = -1, .total = -1, .retry_after = -1};
    struct buf shown = {0};
    int ret = -1;

    if (file_is_dir(d->path))
        return err_set(e, "%s is a folder, want the name of a file", d->path);
    http_show(d->url, &shown);
    j.shown = buf_take(&shown);
    j.clock = d->clock ? d->clock : clock_system();
    j.part = mem_printf("%s.part", d->path);
    j.meta = mem_printf("%s.part.meta", d->path);
    ret = run(&j, sha_out, e);
    http_close(j.http);
    if (ret != 0 && j.fd >= 0 && file_size(j.part) == 0) { /* nothing worth keeping */
        unlink(j.part);
        unlink(j.meta);
    }
    if (j.fd >= 0)
        close(j.fd);
    buf_release(&j.validator);
    buf_release(&j.failure);
    free(j.shown);
    free(j.part);
    free(j.meta);
    return ret;
}

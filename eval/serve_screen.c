/* serve_screen: see eval/serve_screen.h. */
#include "eval/serve_screen.h"

#include <string.h>
#include <strings.h>

/* localhost, 127.x.y.z or ::1; without the port: "[::1]:8080" -> "::1". */
static bool host_is_loopback(struct str host)
{
    bool six = host.n && host.p[0] == '[';
    if (six) {
        host.p++;
        host.n--;
    }
    host = str_cut(&host, six ? ']' : ':');
    bool digits = str_starts(host, "127.");
    for (size_t i = 0; i < host.n; i++)
        digits = digits && (host.p[i] == '.' || (host.p[i] >= '0' && host.p[i] <= '9'));
    return digits || str_eqz(host, "localhost") || (six && str_eqz(host, "::1"));
}

/* Compares without stopping at the first difference. */
static bool key_fits(const char *key, struct str given)
{
    static const char bearer[] = "Bearer ";
    size_t n = strlen(key);
    if (given.n < strlen(bearer) || strncasecmp(given.p, bearer, strlen(bearer)) != 0)
        return false; /* a scheme's name has no case (RFC 9110, 11.1) */
    given.p += strlen(bearer);
    given.n -= strlen(bearer);
    unsigned diff = given.n != n;
    for (size_t i = 0; i < given.n; i++)
        diff |= (unsigned char)given.p[i] ^ (unsigned char)key[i % (n ? n : 1)];
    return diff == 0;
}

/* Where a body ends must be said once, or a proxy in front may see another end than we do. */
static int screen_body(const struct screen_rule *r, const struct screen_head *h, const char **why)
{
    int64_t length;
    bool chunked = h->encoding.n == 7 && strncasecmp(h->encoding.p, "chunked", 7) == 0;
    if (h->lengths > 1 || h->encodings > 1 || (h->lengths && h->encodings)) {
        *why = "the body's length is said twice: one Content-Length, or one Transfer-Encoding";
        return 400;
    }
    if (h->encodings && !chunked) {
        *why = "Transfer-Encoding must be chunked";
        return 400;
    }
    if (h->length.n && (str_i64(h->length, &length) || length > r->max_body)) {
        *why = "the body is larger than this server takes";
        return 413;
    }
    return 0;
}

int serve_screen(const struct screen_rule *r, const struct screen_head *h, const char **why)
{
    *why = "";
    if (r->loopback && !r->key && !host_is_loopback(h->host)) {
        *why = "this server is for its own machine: the Host must be localhost or 127.0.0.1";
        return 403;
    }
    if (h->url > SCREEN_URL) {
        *why = "the path is longer than 8192 bytes";
        return 414;
    }
    if (h->head > SCREEN_HEAD) {
        *why = "the headers are larger than 32768 bytes";
        return 431;
    }
    if (r->key && !str_eqz(h->path, "/health") && !key_fits(r->key, h->authorization)) {
        *why = "a key is wanted: Authorization: Bearer KEY";
        return 401;
    }
    return screen_body(r, h, why);
}

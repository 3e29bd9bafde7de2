/* Starting tests/httpd.c from a C test. The script is text; see tests/httpd.c for its words.
 *
 *   struct httpd h;
 *   if (!httpd_start(&h, "on GET /x\nbody hello\n")) ...
 *   ... h.url is "http://127.0.0.1:PORT" ...
 *   httpd_log(&h, &buf);      what was asked so far, JSON lines
 *   httpd_stop(&h);
 */
#ifndef TESTS_HTTPD_H
#define TESTS_HTTPD_H

#include <signal.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/file.h"
#include "tests/tap.h"

struct httpd {
    pid_t pid;
    int in; /* its stdin: closing it ends the server */
    int port;
    char url[64], script[300], log[300];
};

__attribute__((unused)) static bool httpd_start_at(struct httpd *h, const char *text, int port)
{
    static int count;
    const char *build = getenv("BUILD");
    char tool[512], at[16], line[32] = {0};
    struct err e;
    int to[2], from[2];

    count++;
    snprintf(tool, sizeof tool, "%s/tests/httpd", build && *build ? build : "build");
    snprintf(at, sizeof at, "%d", port);
    snprintf(h->script, sizeof h->script, "%s/httpd.%d.script", tap_tmp(), count);
    snprintf(h->log, sizeof h->log, "%s/httpd.%d.log", tap_tmp(), count);
    if (file_write_all(h->script, str_z(text), &e) != 0 || pipe(to) != 0 || pipe(from) != 0)
        return false;
    h->pid = fork();
    if (h->pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[0]);
        close(to[1]);
        close(from[0]);
        close(from[1]);
        execl(tool, tool, h->script, "--log", h->log, "--port", at, (char *)NULL);
        perror(tool);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    h->in = to[1];
    ssize_t got = read(from[0], line, sizeof line - 1);
    close(from[0]);
    h->port = got > 0 ? (int)strtol(line, NULL, 10) : 0;
    snprintf(h->url, sizeof h->url, "http://127.0.0.1:%d", h->port);
    return h->port > 0;
}
__attribute__((unused)) static bool httpd_start(struct httpd *h, const char *text)
{
    return httpd_start_at(h, text, 0);
}
__attribute__((unused)) static void httpd_stop(struct httpd *h)
{
    close(h->in);
    if (h->pid > 0)
        waitpid(h->pid, NULL, 0);
    h->pid = 0;
}
__attribute__((unused)) static void httpd_log(const struct httpd *h, struct buf *out)
{
    struct err e;
    if (file_read(h->log, out, 0, &e) != 0)
        buf_addz(out, e.msg);
}

#endif

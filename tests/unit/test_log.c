/* log: what reaches stderr at each level, in a pipe and on a terminal. A child writes, we read. */
#include "tests/tap.h"

#include <pty.h>
#include <pthread.h>
#include <sys/wait.h>

#include "base/log.h"

/* Runs body with stderr on a pipe (or a terminal) and returns what it wrote. */
static char *capture(void (*body)(void), bool terminal)
{
    static char text[1 << 16];
    int fd[2];
    size_t n = 0;
    if (terminal ? openpty(&fd[0], &fd[1], NULL, NULL, &(struct winsize){24, 120, 0, 0})
                 : pipe(fd)) {
        perror("pipe");
        exit(1);
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd[0]);
        dup2(fd[1], STDERR_FILENO);
        setenv("TERM", "xterm", 1);
        body();
        _exit(0);
    }
    close(fd[1]);
    while (n < sizeof text - 1) {
        ssize_t got = read(fd[0], text + n, sizeof text - 1 - n);
        if (got <= 0) /* a terminal whose other end closed says EIO */
            break;
        n += (size_t)got;
    }
    text[n] = 0;
    close(fd[0]);
    waitpid(pid, NULL, 0);
    return text;
}

static void every_level(void)
{
    log_debug("debug %d", 1);
    log_info("info %d", 2);
    log_warn("warn %d", 3);
    log_error("error %d", 4);
}

static void at_info(void)
{
    log_open("vocab train", LOG_INFO);
    every_level();
}

static void at_warn(void)
{
    struct progress p;
    log_open("train", LOG_WARN);
    every_level();
    progress_begin(&p, "train", "tokens", 10, 0);
    p.shown -= 100;
    progress_set(&p, 5, "loss 1");
    progress_end(&p);
}

static void at_debug(void)
{
    log_open("train", LOG_DEBUG);
    every_level();
}

static void hostile(void)
{
    log_open("cat", LOG_INFO);
    log_info("open \033[31mred\r%s", "\x07");
}

/* Pretends that the work started `ago` seconds before now. */
static void begin(struct progress *p, double total, double already, double ago)
{
    log_open("train", LOG_INFO);
    progress_begin(p, "train", "tokens", total, already);
    p->start -= ago;
    p->shown -= ago;
}

static void slow(void)
{
    struct progress p;
    begin(&p, 800000, 100000, 100);
    progress_set(&p, 300000, "loss 3.21");
    for (int i = 0; i < 1000; i++)
        progress_set(&p, 300000 + i, "loss 3.20");
    progress_set(&p, 600000, NULL);
    progress_end(&p);
    progress_end(&p);
}

static void quick(void)
{
    struct progress p;
    begin(&p, 10, 0, 0);
    progress_set(&p, 10, NULL);
    progress_end(&p);
}

static void with_warning(void)
{
    struct progress p;
    begin(&p, 800000, 0, 100);
    progress_set(&p, 400000, "loss 3.21");
    log_warn("the loss jumped");
    progress_end(&p);
}

static void unknown_total(void)
{
    struct progress p;
    begin(&p, 0, 0, 100);
    p.what = "read";
    progress_set(&p, 5000, NULL);
    progress_end(&p);
}

static void *shout(void *name)
{
    for (int i = 0; i < 500; i++)
        log_info("%s says one whole line", (const char *)name);
    return NULL;
}

static void many_threads(void)
{
    pthread_t t[4];
    static char *const names[] = {"a", "b", "c", "d"};
    log_open("t", LOG_INFO);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, shout, names[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static void test_threads(void)
{
    int whole = 0, other = 0;
    char *text = capture(many_threads, false);
    for (char *at = text; *at;) {
        char *end = strchr(at, '\n');
        char who;
        int used = 0;
        bool ok =
            end && sscanf(at, "t: %c says one whole line%n", &who, &used) == 1 && at + used == end;
        whole += ok;
        other += !ok;
        at = end ? end + 1 : at + strlen(at);
    }
    CHECK(whole == 2000 && other == 0, "four threads write whole lines (%d, %d others)", whole,
          other);
}

int main(void)
{
    CHECK_STR(capture(at_info, false),
              "vocab train: info 2\nvocab train: warning: warn 3\nvocab train: error 4\n",
              "info: no debug, each line starts with the command");
    CHECK_STR(capture(at_warn, false), "train: warning: warn 3\ntrain: error 4\n",
              "quiet: no info and no progress");
    CHECK(strstr(capture(at_debug, false), "train: debug 1\n"), "debug shows all");
    CHECK_STR(capture(hostile, false), "cat: open ?[31mred??\n", "control characters are not sent");
    CHECK_STR(
        capture(slow, false),
        "train: 37%, 300K/800K tokens, 2.00K tokens/s, 4:10 left, loss 3.21\n"
        "train: 500K tokens in 1:40, 5.00K tokens/s\n",
        "in a pipe: one line in 10 s and one at the end; the rate leaves out what was resumed");
    CHECK_STR(capture(quick, false), "", "short work says nothing");
    CHECK_STR(
        capture(unknown_total, false),
        "train: read: 5.00K tokens, 50 tokens/s\ntrain: read: 5.00K tokens in 1:40, 50 tokens/s\n",
        "an unknown total has no share and no time left");
    const char *tty = capture(with_warning, true);
    CHECK(strstr(tty,
                 "train [##########..........]  50% 400K/800K tokens, 4.00K tokens/s, 1:40 left, "
                 "loss 3.21"),
          "a terminal gets a bar with share, rate and time left");
    CHECK(strstr(tty, "\r\033[Ktrain: warning: the loss jumped\r\n"),
          "a line takes the bar away first");
    test_threads();
    return tap_done();
}

/* main: the command line of assay, and the only file that ends the process.
 *
 * To add a command: write room/cmd_x.c with `const struct command cmd_x`, and add one row below.
 * A command returns its exit status, or -1 with a sentence, which is printed here. stdout is the
 * product, so a write to it that failed is an error of the whole command.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/command.h"
#include "base/http.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/regex.h"
#include "formats/build.h"
#include "trainer/backend.h"

/* In the order in which data flow. */
extern const struct command cmd_fetch, cmd_corpus, cmd_split, cmd_vocab_train, cmd_vocab_info,
    cmd_encode, cmd_decode, cmd_shard, cmd_train, cmd_finetune, cmd_plan, cmd_eval,
    cmd_export_model, cmd_sample, cmd_serve, cmd_score, cmd_judge, cmd_agree, cmd_result,
    cmd_compare, cmd_report, cmd_gate, cmd_tag, cmd_stages, cmd_pack, cmd_unpack, cmd_sealed,
    cmd_export, cmd_sweep, cmd_cost, cmd_cat, cmd_verify, cmd_doctor;

static const struct command *const commands[] = {
    &cmd_fetch,       &cmd_corpus,     &cmd_split,                                 /* datasets */
    &cmd_vocab_train, &cmd_vocab_info, &cmd_encode, &cmd_decode,       &cmd_shard, /* tokenizer */
    &cmd_train,       &cmd_finetune,   &cmd_plan,                                  /* trainer */
    &cmd_eval,        &cmd_sample,     &cmd_serve,  &cmd_export_model,             /* eval */
    &cmd_score,       &cmd_judge,      &cmd_agree,                                 /* scoring */
    &cmd_result,      &cmd_compare,    &cmd_report, &cmd_gate,         &cmd_tag,
    &cmd_stages,      &cmd_doctor, /* pipelines */
    &cmd_pack,        &cmd_unpack,     &cmd_sealed, &cmd_export,       &cmd_sweep,
    &cmd_cost,                     /* pipelines */
    &cmd_cat,         &cmd_verify, /* formats */
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

/* ---- finding a command ---------------------------------------------------------------------- */

/* The command that argv starts with; *words gets how many words its name has. */
static const struct command *find_command(int argc, char **argv, int *words)
{
    char two[128] = "";
    if (argc > 1)
        snprintf(two, sizeof two, "%s %s", argv[0], argv[1]);
    for (int i = 0; i < COMMANDS; i++) {
        const struct command *c = commands[i];
        if (strcmp(c->name, argv[0]) == 0 || strcmp(c->name, two) == 0) {
            *words = strchr(c->name, ' ') ? 2 : 1;
            return c;
        }
    }
    return NULL;
}

/* "vocab" alone: says which second words there are. */
static bool half_command(const char *word, struct err *e)
{
    struct buf b = {0};
    size_t n = strlen(word);
    for (int i = 0; i < COMMANDS; i++) {
        const struct command *c = commands[i];
        if (strncmp(c->name, word, n) == 0 && c->name[n] == ' ')
            buf_printf(&b, "%s%s", b.n ? ", " : "", c->name + n + 1);
    }
    if (b.n)
        err_code(e, EXIT_USAGE, "\"%s\" needs a second word: %s", word, b.p);
    bool half = b.n > 0;
    buf_release(&b);
    return half;
}

static int unknown_command(int argc, char **argv, struct err *e)
{
    const char *near = NULL;
    char two[128];
    int best = 3;
    if (half_command(argv[0], e))
        return -1;
    snprintf(two, sizeof two, "%s %s", argv[0], argc > 1 ? argv[1] : "");
    for (int i = 0; i < COMMANDS; i++) {
        bool is_two = strchr(commands[i]->name, ' ');
        int d = str_distance(is_two ? two : argv[0], commands[i]->name);
        if (d < best) {
            best = d;
            near = commands[i]->name;
        }
    }
    if (near)
        return err_code(e, EXIT_USAGE, "unknown command \"%.60s\"; did you mean \"%s\"?", argv[0],
                        near);
    return err_code(e, EXIT_USAGE, "unknown command \"%.60s\"; `assay help` lists them", argv[0]);
}

/* ---- help and version ----------------------------------------------------------------------- */

static void help_all(FILE *to)
{
    const char *room = "";
    fputs("assay trains GPT-2 style models and measures them.\n\n"
          "usage: assay COMMAND [options]      assay help COMMAND      assay --version\n",
          to);
    for (int i = 0; i < COMMANDS; i++) {
        const struct command *c = commands[i];
        if (strcmp(room, c->room) != 0)
            fprintf(to, "\n%s\n", c->room);
        room = c->room;
        fprintf(to, "  %-12s %s\n", c->name, c->summary);
    }
    fputs("\nEvery command takes --quiet (no progress) and --verbose.\n"
          "Exit status: 0 done, 1 failed, 2 usage, 3 gate not met, 4 incomplete (run it again).\n",
          to);
}

static void help_command(const struct command *c, FILE *to)
{
    fprintf(to, "assay %s: %s\n\nusage: assay %s", c->name, c->summary, c->name);
    bool options = false;
    for (const struct field *f = c->options ? c->options->fields : NULL; f && f->name; f++) {
        if (!(f->flags & FIELD_POSITIONAL)) {
            options = true;
            continue;
        }
        struct buf b = {0};
        for (const char *p = f->name; *p; p++)
            buf_addc(&b, *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p);
        buf_addz(&b, f->type == FIELD_STRS ? "..." : "");
        fprintf(to, f->def ? " [%s]" : " %s", b.p);
        buf_release(&b);
    }
    fprintf(to, "%s\n", options ? " [options]" : "");
    if (c->details)
        fprintf(to, "\n%s\n", c->details);
    if (c->options) {
        fputc('\n', to);
        schema_help(c->options, to);
    }
}

static void version_backend(void *ctx, const char *name, const char *state)
{
    fprintf(ctx, "backend    %s: %s\n", name, state);
}

static void version(FILE *to)
{
    const char *dirty = build_info.dirty == 1 ? ", changed since" : "";
    fprintf(to, "assay %s\ncommit     %s%s\ncompiler   %s\n", build_info.version, build_info.commit,
            dirty, build_info.compiler);
    backend_list(version_backend, to);
    fprintf(to, "PCRE2      %s, Unicode %s\n", regex_version(), regex_unicode());
    fprintf(to, "jansson    %s\n", json_library());
    fprintf(to, "libcurl    %s\n", http_version());
}

/* ---- running -------------------------------------------------------------------------------- */

struct globals {
    enum log_level level;
    bool help, version;
};

/* Takes the words that every command understands out of argv, up to "--". */
static int take_globals(int argc, char **argv, struct globals *g)
{
    int n = 0;
    bool end = false;
    for (int i = 0; i < argc; i++) {
        const char *w = argv[i];
        end = end || strcmp(w, "--") == 0;
        if (end)
            argv[n++] = argv[i];
        else if (strcmp(w, "--quiet") == 0)
            g->level = LOG_WARN;
        else if (strcmp(w, "--verbose") == 0)
            g->level = LOG_DEBUG;
        else if (strcmp(w, "--help") == 0 || strcmp(w, "-h") == 0)
            g->help = true;
        else if (strcmp(w, "--version") == 0 && n == 0)
            g->version = true;
        else
            argv[n++] = argv[i];
    }
    return n;
}

static int run_command(const struct command *c, int argc, char **argv, struct err *e)
{
    static const struct field no_fields[] = {{0}};
    static const struct schema no_options = {"options", 1, 1, no_fields};
    const struct schema *s = c->options ? c->options : &no_options;
    struct arena a = {0};
    void *opt = arena_alloc(&a, s->size);
    int code = schema_args(s, opt, argc, argv, &a, e);
    if (code == 0)
        code = c->run(opt, &a, e);
    arena_release(&a);
    return code;
}

/* argv without the program's name. Returns the exit status, or -1 with e. */
static int dispatch(int argc, char **argv, const struct command **ran, struct err *e)
{
    struct globals g = {.level = LOG_INFO};
    int words = 0;
    argc = take_globals(argc, argv, &g);
    log_open("assay", g.level);
    if (g.version) {
        version(stdout);
        return EXIT_DONE;
    }
    bool asked = argc && strcmp(argv[0], "help") == 0;
    if (asked) {
        argc--;
        argv++;
    }
    if (argc == 0) {
        bool wanted = asked || g.help;
        help_all(wanted ? stdout : stderr);
        return wanted ? EXIT_DONE : EXIT_USAGE;
    }
    const struct command *c = find_command(argc, argv, &words);
    if (!c && argv[0][0] == '-')
        return err_code(e, EXIT_USAGE, "unknown option %.60s before the command", argv[0]);
    if (!c)
        return unknown_command(argc, argv, e);
    if (asked || g.help) {
        help_command(c, stdout);
        return EXIT_DONE;
    }
    *ran = c;
    log_open(c->name, g.level);
    return run_command(c, argc - words, argv + words, e);
}

/* A file opened later must not get the number of a closed standard stream. A closed stdout becomes
 * one that cannot be written, so that a product that gets lost is still an error. */
static void keep_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) == -1)
            (void)!open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    }
}

/* 0, or -1 with e; *reader_left: the pipe's other end was closed (`assay cat F | head`). */
static int close_stdout(bool *reader_left, struct err *e)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    bool lost = ferror(stdout);
    bool gone = poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
    if (fclose(stdout) != 0)
        err_sys(e, "write to stdout");
    else if (lost)
        err_set(e, "a write to stdout failed");
    else
        return 0;
    *reader_left = gone;
    return -1;
}

int main(int argc, char **argv)
{
    struct err e = {0}, out = {0};
    const struct command *ran = NULL;
    bool reader_left = false;
    keep_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a lost peer is an error of the write, not a death in the middle */
    int code = dispatch(argc > 0 ? argc - 1 : 0, argv + 1, &ran, &e);
    if (code < 0) {
        log_error("%s", e.msg);
        code = e.code ? e.code : EXIT_FAILED;
        if (code == EXIT_USAGE && ran)
            log_error("`assay help %s` shows the options", ran->name);
    }
    if (close_stdout(&reader_left, &out) != 0) {
        if (reader_left) { /* end as other tools in a pipe do */
            signal(SIGPIPE, SIG_DFL);
            raise(SIGPIPE);
        }
        log_error("%s", out.msg);
        code = code == EXIT_DONE ? EXIT_FAILED : code;
    }
    return code;
}

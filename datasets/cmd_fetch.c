/* cmd_fetch: `assay fetch NAME|URL --out F`, and the table of known sources. */
#include <stdio.h>

#include "base/command.h"
#include "datasets/fetch.h"
#include "datasets/sources.h"

struct options {
    struct str what, out, sha256, mirror;
    int64_t files, tries;
    bool list;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"what", FIELD_STR, AT(what), "",
     .help = "name of a source, an http, https or file URL, a path", .flags = FIELD_POSITIONAL},
    {"out", FIELD_STR, AT(out), "", .help = "file to write; a folder for several files"},
    {"sha256", FIELD_STR, AT(sha256), "", .help = "64 hex digits that the file must have"},
    {"files", FIELD_I64, AT(files), "0", .min = 0, .max = 1e6,
     .help = "only the first files of a source; 0: all"},
    {"mirror", FIELD_STR, AT(mirror), "", .help = "folder or URL that replaces the source's host"},
    {"tries", FIELD_I64, AT(tries), "5", .min = 1, .max = 1000,
     .help = "attempts without progress before giving up"},
    {"list", FIELD_BOOL, AT(list), "no", .help = "show the known sources"},
    {0},
};
#undef AT
static const struct schema options = {"fetch", 1, sizeof(struct options), fields};

static void list_sources(struct arena *a)
{
    for (const struct source *s = sources; s->name; s++) {
        size_t n = source_count(s), pinned = 0;
        const char *sha, *path = "";
        for (size_t i = n; i-- > 0;) {
            path = source_path(s, i, &sha, a);
            pinned += sha != NULL;
        }
        printf("%-17s %s\n%-17s licence: %s\n%-17s from:    %s/%s%s\n"
               "%-17s hashes:  %zu of %zu files pinned\n",
               s->name, s->what, "", s->licence, "", s->host, path, n > 1 ? " ..." : "", "", pinned,
               n);
    }
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct options *o = opt;

    if (o->list) {
        list_sources(a);
        return EXIT_DONE;
    }
    if (!o->what.n)
        return err_code(e, EXIT_USAGE,
                        "what to fetch? a source, a URL or a path; --list shows "
                        "the sources");
    if (!o->out.n)
        return err_code(e, EXIT_USAGE, "--out is needed: the file or folder to write");
    struct fetch f = {.what = str_dup(a, o->what),
                      .out = str_dup(a, o->out),
                      .mirror = str_dup(a, o->mirror),
                      .sha256 = str_dup(a, o->sha256),
                      .files = o->files,
                      .tries = o->tries};
    return fetch_run(&f, e);
}

const struct command cmd_fetch = {
    "datasets",
    "fetch",
    "bring known data, or any URL, checked and resumable",
    "A download goes to OUT.part and gets its name when it is whole and its SHA-256 fits; run the\n"
    "same command again to resume it. Files whose hash is not known before are marked as unpinned\n"
    "in the manifest. Prints \"SHA256  PATH\" for each file, as sha256sum -c reads it.\n"
    "Proxies: http_proxy, https_proxy and no_proxy are used, but never for loopback.",
    &options,
    run};

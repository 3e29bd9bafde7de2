/* assay verify: re-hash bulk against manifests. */
#include "base/command.h"
#include "base/log.h"
#include "base/str.h"
#include "formats/verify.h"

struct opt {
    struct strs paths;
};
#define AT(m) offsetof(struct opt, m)
static const struct field fields[] = {
    {"path", FIELD_STRS, AT(paths), NULL, .help = "artefacts, manifests or folders of them",
     .flags = FIELD_POSITIONAL},
    {0},
};
#undef AT
static const struct schema options = {"verify", 1, sizeof(struct opt), fields};

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct opt *o = opt;
    struct verified v = {0};
    for (size_t i = 0; i < o->paths.n; i++)
        if (verify_path(str_dup(a, o->paths.v[i]), &v, stdout, e))
            return -1;
    log_info("%lld artefacts, %lld files, %lld bytes as their manifests say; %lld sealed",
             (long long)v.artefacts, (long long)v.files, (long long)v.bytes, (long long)v.sealed);
    return EXIT_DONE;
}

const struct command cmd_verify = {
    .room = "formats",
    .name = "verify",
    .summary = "re-hash bulk against manifests",
    .details = "Looks for manifests in the paths and below, hashes every file they name and ends\n"
               "with status 1 at the first that differs. An artefact without any of its files is\n"
               "sealed (made elsewhere), which is no error.",
    .options = &options,
    .run = run,
};

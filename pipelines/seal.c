/* seal: stages whose bulk stayed on another machine, see pack.h.
 *
 * The stage itself cannot be asked: it reads its inputs to know its key, and they are not here. What
 * is here is enough: the manifest tells the hashes of the inputs it was made from, the inputs'
 * manifests tell what they are, and packed.ini tells the options.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "formats/manifest.h"
#include "formats/run.h"
#include "pipelines/pack.h"

/* How many of a manifest's outputs are there. */
static size_t outputs_here(const char *folder, const struct json *m, struct arena *a)
{
    const struct json *out = json_get(m, "outputs");
    size_t here = 0;
    for (size_t i = 0; i < json_size(out); i++)
        here += file_exists(
            path_join(a, folder, str_dup(a, json_str(json_get(json_at(out, i), "path")))));
    return here;
}

static const char *folder_of(const char *artefact, struct arena *a)
{
    return file_is_dir(artefact) ? artefact : path_dir(a, artefact);
}

/* The hash that the manifest of a folder gives to one of its files; NULL if it does not name it. */
static const char *hash_in_folder(const char *file, struct arena *a)
{
    const char *folder = path_dir(a, file), *name = path_base(file), *hex = NULL;
    struct err ignored;
    if (!file_exists(manifest_path(a, folder)))
        return NULL;
    struct json *m = manifest_read(folder, &ignored);
    const struct json *out = json_get(m, "outputs");
    for (size_t i = 0; i < json_size(out); i++)
        if (str_eqz(json_str(json_get(json_at(out, i), "path")), name))
            hex = str_dup(a, json_str(json_get(json_at(out, i), "sha256")));
    json_free(m);
    return hex;
}

enum input { INPUT_HERE, INPUT_AWAY, INPUT_CHANGED };

static enum input input_state(const char *folder, const struct json *in, struct arena *a)
{
    const char *path = path_join(a, folder, str_dup(a, json_str(json_get(in, "path"))));
    struct str want = json_str(json_get(in, "hash"));
    struct err ignored;
    if (file_exists(manifest_path(a, path))) {
        struct json *m = manifest_read(path, &ignored);
        bool same = str_eq(want, json_str(json_get(m, "hash")));
        bool whole = outputs_here(folder_of(path, a), m, a) == json_size(json_get(m, "outputs"));
        json_free(m);
        return !same ? INPUT_CHANGED : whole ? INPUT_HERE : INPUT_AWAY;
    }
    if (file_exists(path))
        return INPUT_HERE;
    const char *hex = hash_in_folder(path, a);
    return hex && !str_eqz(want, hex) ? INPUT_CHANGED : INPUT_AWAY;
}

/* Which keys of a section do not decide a stage: the rules of make go by whole sections, and a stage whose
 * key does not know an option would not have been made again for it. A key that is not named here decides,
 * so that a new option refuses too much rather than too little. */
#define ANSWERS " max_new_tokens temperature top_k top_p min_p repetition_penalty "
#define WHICH   " windows documents instruct tasks "
struct sparing {
    const char *command, *task; /* task NULL: any */
    const char *section, *keys; /* separated by blanks, with one at each end */
};
static const struct sparing sparing[] = {
    {"corpus", NULL, "data",
     " run train test shards instruct instruct_test instruct_val clean holdout bad_utf8 "
     "shard_tokens paragraphs "},
    {"split", NULL, "data", " docs seed shards shard_tokens "},
    {"shard", NULL, "data",
     " run kind docs seed train test shards instruct instruct_test instruct_val clean holdout "
     "paragraphs "},
    {"shard", NULL, "finetune",
     " seeds seed lr weight_decay clip warmup epochs batch patience mask_prompt dropout "},
    {"eval", "windows", "eval", WHICH ANSWERS " shots seed "},
    {"eval", "documents", "eval", WHICH ANSWERS " shots seed start tokens "},
    {"eval", "choice", "eval", WHICH ANSWERS " start tokens "},
    {"eval", "instruct", "eval", WHICH " shots start tokens "},
    {"score", NULL, "score", " scorers "}, /* one scorer a stage, named by its file */
};
#undef ANSWERS
#undef WHICH

static bool decides(const struct json *manifest, const char *section, const char *key)
{
    struct str command = json_str(json_get(manifest, "command")),
               task = json_str(json_get(json_get(manifest, "options"), "task"));
    char word[80];
    snprintf(word, sizeof word, " %s ", key);
    for (size_t i = 0; i < sizeof sparing / sizeof sparing[0]; i++) {
        const struct sparing *d = &sparing[i];
        if (str_eqz(command, d->command) && strcmp(section, d->section) == 0 &&
            (!d->task || str_eqz(task, d->task)))
            return strstr(d->keys, word) == NULL;
    }
    return true;
}

/* The first key that decides the stage and differs between the run file and the packed one. */
static int options_differ(const char *dir, const struct json *manifest, struct strs sections,
                          struct arena *a, struct err *e)
{
    struct run now, then;
    if (run_load(&now, path_join(a, dir, "run.ini"), (struct strs){0}, a, e) ||
        run_load(&then, path_join(a, dir, "packed.ini"), (struct strs){0}, a, e))
        return -1;
    for (size_t i = 0; i < sections.n; i++) {
        const struct field *s = schema_find(&run_schema, NULL, str_dup(a, sections.v[i]), NULL);
        if (!s || s->type != FIELD_STRUCT || str_eqz(sections.v[i], "run"))
            continue;
        for (const struct field *f = s->sub->fields; f->name; f++) {
            struct buf x = {0}, y = {0};
            field_text(f, (char *)&now + s->at + f->at, &x);
            field_text(f, (char *)&then + s->at + f->at, &y);
            int rc = 0;
            if (!(f->flags & FIELD_VOLATILE) && decides(manifest, s->name, f->name) &&
                !str_eq(buf_str(&x), buf_str(&y)))
                rc = err_set(e, "made with %s.%s = %s, the run file now says %s", s->name, f->name,
                             y.p ? y.p : "nothing", x.p ? x.p : "nothing");
            buf_release(&x);
            buf_release(&y);
            if (rc)
                return rc;
        }
    }
    return 0;
}

int pack_sealed(const char *dir, const char *artefact, struct strs sections, struct arena *a,
                struct err *e)
{
    if (!file_exists(path_join(a, dir, "packed.ini")) || !file_exists(manifest_path(a, artefact)))
        return 0;
    struct json *m = manifest_read(artefact, e);
    if (!m)
        return -1;
    const char *folder = folder_of(artefact, a), *changed = NULL;
    const struct json *in = json_get(m, "inputs"), *vol = json_get(m, "volatile");
    bool away = outputs_here(folder, m, a) < json_size(json_get(m, "outputs"));
    int rc = 0;
    for (size_t i = 0; i < json_size(in); i++) {
        enum input s = input_state(folder, json_at(in, i), a);
        away = away || s == INPUT_AWAY;
        if (s == INPUT_CHANGED)
            changed = str_dup(a, json_str(json_get(json_at(in, i), "path")));
    }
    struct str host = json_str(json_get(vol, "host")), made = json_str(json_get(vol, "made"));
    if (!away)
        goto out;
    if (options_differ(dir, m, sections, a, e)) {
        rc = -1;
    } else if (changed) {
        rc = err_set(e, "made from another %s than the one that is here", changed);
    } else {
        log_info("%s: sealed, made on %.*s at %.*s", artefact, STR_ARG(host), STR_ARG(made));
        rc = file_touch(manifest_path(a, artefact), e) ? -1 : 1;
    }
    if (rc < 0)
        err_wrap(e, "%s is sealed: what it needs lies on %.*s, where it was made at %.*s; %s",
                 artefact, STR_ARG(host), STR_ARG(made), "it can't be made again here");
out:
    json_free(m);
    return rc;
}

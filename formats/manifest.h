/* manifest: who made an artefact, from what, with which options; and the key that says whether a
 * stage must run again.
 *
 * The manifest of a file X is X.manifest.json beside it, of a folder D it is D/manifest.json. It is
 * written last (and an old one removed first), so an artefact with a manifest is whole.
 *   { "schema": "assay manifest", "version": 1, "command": "shard", "stage_version": 1,
 *     "key": H, "options": {...}, "inputs": [{"path", "hash"}...],
 *     "outputs": [{"path", "bytes", "sha256"}...], "facts": {...}, "hash": H,
 *     "volatile": {"made", "seconds", "host", "commit", ...} }
 * Paths are relative to the manifest's folder. `key` = SHA-256 of command, stage version, canonical
 * options and the hashes of the inputs; `hash` = SHA-256 over the outputs' names and hashes: what
 * a later stage takes as its input's hash. Volatile values enter neither.
 */
#ifndef FORMATS_MANIFEST_H
#define FORMATS_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/field.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"

/* One run of one stage. Zeroed is empty; stage_release accepts that. */
struct stage {
    const char *command, *out; /* out: file or folder */
    int version;
    struct json *doc;                      /* what will be written */
    struct json *inputs, *outputs, *facts; /* borrowed from doc */
    struct json *given, *vol;              /* inputs as given; both enter doc at the end */
    struct buf key_text;
    double started;
    int lock; /* 1 + descriptor of the locked output folder; 0: none */
};

/* Starts a stage that makes `out`; options through their table (may be NULL). */
void stage_begin(struct stage *st, const char *command, int version, const char *out,
                 const struct schema *options, const void *opt);
/* Adds one more set of options, e.g. a section of the run file, under a name. */
void stage_options(struct stage *st, const char *name, const struct schema *s, const void *opt);
/* Adds a plain key/value that decides the result. */
void stage_setting(struct stage *st, const char *name, const char *value);
/* Adds an input: the hash of its manifest if it has one, else SHA-256 of the file, or of all files
 * in a folder in name order. Missing: an error naming it. */
int stage_input(struct stage *st, const char *path, struct err *e);
/* The same for what a number is made of (models, items, answers): its manifest is not believed without
 * reading the files (manifest_whole). Shards are too big for that; `assay verify` reads them. */
int stage_input_whole(struct stage *st, const char *path, struct err *e);
/* True if out is there with a manifest of this key: says "up to date" and touches the manifest. The
 * outputs it names must be there with their sizes; if all are gone the artefact is sealed (made
 * elsewhere), which is said and counts as fresh. If only some are gone the stage runs again. */
bool stage_fresh(struct stage *st);
/* To be called before the first byte of out is written: removes the old manifest. Refuses (usage) an
 * out that is or lies in an input, or that another command made; an output folder is locked until
 * stage_release, so a second writer fails at once. */
int stage_start(struct stage *st, struct err *e);
/* Adds an output file (path absolute or relative to cwd, inside or beside out); hashes it. */
int stage_output(struct stage *st, const char *path, struct err *e);
void stage_fact(struct stage *st, const char *name, struct json *v);     /* takes v */
void stage_volatile(struct stage *st, const char *name, struct json *v); /* takes v */
/* The refusals of stage_start alone (its output would write over an input, or over what another command
 * made), for stages that make a folder or a lock before they start. */
int stage_spare(struct stage *st, struct err *e);
/* Writes the manifest. */
int stage_end(struct stage *st, struct err *e);
void stage_release(struct stage *st);

/* The manifest of an artefact: the path, and reading it. */
char *manifest_path(struct arena *a, const char *artefact);
struct json *manifest_read(const char *artefact, struct err *e); /* NULL: missing or damaged */
/* Whether path lies inside or beside the artefact, as its outputs must. */
bool manifest_can_name(const char *artefact, const char *path);
/* Hash of an artefact as an input: from its manifest, whose outputs must have their sizes where they are
 * here, else by reading it. */
int manifest_hash(const char *artefact, char hex[SHA256_HEX], struct err *e);
/* Reads the outputs that are here (but a checkpoint's optimizer) and refuses what its manifest does not
 * speak of: somebody wrote over it. No manifest: nothing to refuse. */
int manifest_whole(const char *artefact, struct err *e);
/* Re-hashes every output of an artefact's manifest. -1 and the first that differs or is missing;
 * if all are missing it is sealed (made elsewhere), which is no error. */
struct manifest_seen {
    int64_t files, bytes; /* that were hashed */
    bool sealed;
};
int manifest_verify(const char *artefact, struct manifest_seen *seen, struct err *e);

#endif

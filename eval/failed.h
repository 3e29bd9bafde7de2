/* failed: which items have no answer, for a sentence and for the manifest. */
#ifndef EVAL_FAILED_H
#define EVAL_FAILED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "formats/manifest.h"

struct failed {
    int64_t n, open;  /* open: those that may be answered when asked again */
    struct buf words; /* the first twenty */
    struct json *ids; /* the first thousand */
};
/* final: asked again it would fail again. */
void failed_add(struct failed *f, struct str id, struct str why, bool final);
/* "a (why), b, c and 7 more"; borrowed. */
const char *failed_words(struct failed *f);
/* The manifest's "failed_ids", say; nothing when there are none. */
void failed_fact(struct failed *f, const char *name, struct stage *st);
void failed_release(struct failed *f);

#endif

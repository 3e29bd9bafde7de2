/* verdict: one question to a judge and what came of it: the judge's journal (verdicts.msgpack).
 *
 * Its key is SHA-256 of item, answers in the order shown, judge identity with decoding, prompt and
 * repeat, so a verdict is paid for once, whatever the order of rows or runs. Of several records with
 * one key, values that are there are kept and what is missing is asked again.
 */
#ifndef FORMATS_VERDICT_H
#define FORMATS_VERDICT_H

#include "base/field.h"

struct verdict_record {
    struct str item, protocol, key, judge; /* judge: the model that served it */
    struct strs shown;       /* names of the answers, in the order shown; of equal ones "a,b" */
    struct f64s value;       /* one each (pairwise: one); NaN: none */
    int outcome;             /* enum outcome (formats/item.h) */
    struct str detail, text; /* text: the judge's reply, at most 4 KiB of it */
    int64_t repeat, pass, tokens_in, tokens_out;
    double ms; /* volatile */
    struct str rest;
};
/* One pass of a panel (passes.msgpack): who was judged, with which answers. */
struct panel_pass {
    int64_t number, size;                /* size: answers in a question beside the anchors */
    int64_t questions;                   /* of the whole pass; 0: not recorded */
    struct strs model, role, path, hash; /* role: new, rejudged, anchor, reference, empty */
    struct str judge, prompt, items;     /* identity with decoding; hashes */
    struct str rest;
};
extern const struct schema verdict_schema, panel_pass_schema;

#endif

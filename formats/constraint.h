/* constraint: an instruction that a program can check, as items carry it.
 *
 * One constraint is a JSON object text {"id": "punctuation:no_comma"} with the type's arguments
 * beside the id: {"id": "length_constraints:number_words", "relation": "at least", "num_words": 300}.
 * Types and arguments are those of IFEval (Zhou et al. 2023, arXiv 2311.07911); scoring/ifeval.h
 * knows what they mean. Arguments that are null say nothing (one published copy of the data fills
 * unused ones with null) and are dropped.
 */
#ifndef FORMATS_CONSTRAINT_H
#define FORMATS_CONSTRAINT_H

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/item.h"

/* v: absent, or an array whose elements are objects with an "id" or just ids. */
int constraints_of_json(const struct json *v, struct arena *a, struct strs *out, struct err *e);
/* One constraint from text, a JSON object or a bare id, in its canonical form. */
int constraint_of_text(struct str text, struct arena *a, struct str *out, struct err *e);

/* A row of the IFEval data: {"key", "prompt", "instruction_id_list", "kwargs"}. */
int constraints_row(const struct json *row, struct item *it, struct arena *a, struct err *e);

#endif

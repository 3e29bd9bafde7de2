/* verdict: the table. See formats/verdict.h. */
#include "formats/verdict.h"

#include "formats/item.h"

#define AT(m) offsetof(struct verdict_record, m)
static const struct field verdict_fields[] = {
    {"item", FIELD_STR, AT(item), NULL, .help = "id of the item"},
    {"protocol", FIELD_STR, AT(protocol), "", .help = "single, joint or pairwise"},
    {"key", FIELD_STR, AT(key), NULL, .help = "SHA-256 of all that was asked"},
    {"judge", FIELD_STR, AT(judge), "", .help = "model that served the verdict"},
    {"shown", FIELD_STRS, AT(shown), "", .help = "whose answers were shown, in this order"},
    {"value", FIELD_F64S, AT(value), "", .help = "scores in that order; pairwise: one"},
    {"outcome", FIELD_ENUM, AT(outcome), "scored", .choices = outcome_names,
     .help = "whether all have a value, or why not"},
    {"detail", FIELD_STR, AT(detail), "", .help = "what was matched, or why not"},
    {"text", FIELD_STR, AT(text), "", .help = "the judge's reply"},
    {"repeat", FIELD_I64, AT(repeat), "0", .help = "number of the repetition"},
    {"pass", FIELD_I64, AT(pass), "0", .help = "pass of a panel; 0: no panel"},
    {"tokens_in", FIELD_I64, AT(tokens_in), "", .help = "tokens of the question"},
    {"tokens_out", FIELD_I64, AT(tokens_out), "", .help = "tokens of the reply"},
    {"ms", FIELD_F64, AT(ms), "", .help = "time taken, milliseconds", .flags = FIELD_VOLATILE},
    {"rest", FIELD_REST, AT(rest), "", .help = "unknown keys"},
    {0},
};
#undef AT
#define AT(m) offsetof(struct panel_pass, m)
static const struct field pass_fields[] = {
    {"number", FIELD_I64, AT(number), NULL, 1, 1e6, .help = "of the pass"},
    {"size", FIELD_I64, AT(size), NULL, 1, 1e6, .help = "answers in a question beside the anchors"},
    {"questions", FIELD_I64, AT(questions), "0", 0, 9e15, .help = "of the whole pass; 0: unknown"},
    {"model", FIELD_STRS, AT(model), "", .help = "who was judged"},
    {"role", FIELD_STRS, AT(role), "", .help = "new, rejudged, anchor, reference or empty, each"},
    {"path", FIELD_STRS, AT(path), "", .help = "files of their responses"},
    {"hash", FIELD_STRS, AT(hash), "", .help = "SHA-256 of these files"},
    {"judge", FIELD_STR, AT(judge), "", .help = "identity of the judge with its decoding"},
    {"prompt", FIELD_STR, AT(prompt), "", .help = "SHA-256 of the prompt"},
    {"items", FIELD_STR, AT(items), "", .help = "SHA-256 of the items"},
    {"rest", FIELD_REST, AT(rest), "", .help = "unknown keys"},
    {0},
};
#undef AT
const struct schema panel_pass_schema = {"panel_pass", 1, sizeof(struct panel_pass), pass_fields};
const struct schema verdict_schema = {"verdict", 1, sizeof(struct verdict_record), verdict_fields};

/* note: the table, see note.h. */
#include "formats/note.h"

#define AT(m) offsetof(struct note, m)
static const struct field fields[] = {
    {"time", FIELD_STR, AT(time), "", .help = "when it was said, UTC", .flags = FIELD_VOLATILE},
    {"add", FIELD_STRS, AT(add), "", .help = "tags that the run gets"},
    {"remove", FIELD_STRS, AT(remove), "", .help = "tags that it loses"},
    {"notes", FIELD_STR, AT(notes), "", .help = "text in place of the notes before"},
    {"clear", FIELD_BOOL, AT(clear), "false", .help = "the notes before go"},
    {"rest", FIELD_REST, AT(rest), "", .help = "unknown keys"},
    {0},
};
#undef AT
const struct schema note_schema = {"note", 1, sizeof(struct note), fields};

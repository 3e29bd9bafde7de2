/* note: what people say of a run after it ended: tags and notes, a journal beside its result
 * ("result.notes.msgpack"). Each record changes what stood before; the result itself, whose hash
 * others hold, stays as it is. */
#ifndef FORMATS_NOTE_H
#define FORMATS_NOTE_H

#include "base/field.h"
#include "base/str.h"

struct note {
    struct str time;         /* UTC */
    struct strs add, remove; /* tags */
    struct str notes;        /* replaces the notes before, if not empty */
    bool clear;              /* the notes before go */
    struct str rest;
};
extern const struct schema note_schema;

#endif

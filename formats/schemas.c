/* schemas: one row a record kind. */
#include "formats/schemas.h"

#include <string.h>

#include "formats/checkpoint.h"
#include "formats/item.h"
#include "formats/note.h"
#include "formats/result.h"
#include "formats/verdict.h"

const struct schema *const record_schemas[] = {
    &item_schema,        &response_schema, &score_schema,   &loss_unit_schema,  &result_schema,
    &train_state_schema, &note_schema,     &verdict_schema, &panel_pass_schema, NULL,
};

const struct schema *schema_named(const char *name)
{
    for (size_t i = 0; record_schemas[i]; i++)
        if (!strcmp(record_schemas[i]->name, name))
            return record_schemas[i];
    return NULL;
}

/* price: what a judge's tokens cost, from a price file ([price] of an ini file):
 *
 *   [price]
 *   model = gpt-5.5       input = 1.25        per million tokens
 *   currency = USD        output = 10
 *   source = https://...  date = 2026-08-01
 *
 * Without a file money is unknown, which is not zero.
 */
#ifndef PIPELINES_PRICE_H
#define PIPELINES_PRICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/field.h"
#include "base/mem.h"

struct price {
    struct str model, currency, source, date;
    double input, output; /* per million tokens */
};
extern const struct schema price_schema;

/* name: a file, or the name of one in pipelines/prices/. */
int price_load(struct price *p, struct str name, struct arena *a, struct err *e);
/* An amount as people write it: "3200", "12.5", "0.00012"; never "3.2e+03". Three digits below 1, else
 * two behind the point, without zeros at the end. */
enum { PRICE_TEXT = 40 };
const char *price_text(double money, char out[PRICE_TEXT]);
/* The price is for the model of that judge: by its name, which may go on (a dated version), or "any". */
bool price_is_for(const struct price *p, const char *judge);
/* Money for so many tokens; NaN if p is NULL or a count is unknown. */
double price_of(const struct price *p, int64_t tokens_in, int64_t tokens_out);

#endif

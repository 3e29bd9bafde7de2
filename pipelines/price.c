/* price: see pipelines/price.h. */
#include "pipelines/price.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/file.h"

#define AT(m) offsetof(struct price, m)
static const struct field fields[] = {
    {"model", FIELD_STR, AT(model), NULL, .help = "the model that the price is for"},
    {"currency", FIELD_STR, AT(currency), "USD", .help = "of the price and of money caps"},
    {"input", FIELD_F64, AT(input), NULL, 0, 1e9, .help = "per million tokens of the prompt"},
    {"output", FIELD_F64, AT(output), NULL, 0, 1e9, .help = "per million tokens of the answer"},
    {"source", FIELD_STR, AT(source), NULL, .help = "where the price was read"},
    {"date", FIELD_STR, AT(date), NULL, .help = "when, YYYY-MM-DD"},
    {0},
};
#undef AT
const struct schema price_schema = {"price", 1, sizeof(struct price), fields};

struct price_file {
    struct price price;
};
static const struct field file_fields[] = {
    {"price", FIELD_STRUCT, offsetof(struct price_file, price), "", .sub = &price_schema,
     .help = "what tokens cost"},
    {0},
};
static const struct schema file_schema = {"price file", 1, sizeof(struct price_file), file_fields};

int price_load(struct price *p, struct str name, struct arena *a, struct err *e)
{
    struct price_file f;
    const char *path = str_dup(a, name);
    if (!file_exists(path) && !strchr(path, '/'))
        path = arena_printf(a, "pipelines/prices/%s.ini", path);
    if (config_load(&file_schema, &f, path, (struct strs){0}, a, e))
        return -1;
    *p = f.price;
    return 0;
}

bool price_is_for(const struct price *p, const char *judge)
{
    const char *hash = strchr(judge, '#'), *colon = strchr(judge, ':');
    struct str model = str_z(hash ? hash + 1 : colon ? colon + 1 : judge);
    struct str name = str_cut(&model, '?'), last = name;
    for (struct str rest = name; rest.n;) /* "openai/gpt-5.5" of a router */
        last = str_cut(&rest, '/');
    return str_eqz(p->model, "any") ||
           (p->model.n && ((name.n >= p->model.n && !memcmp(name.p, p->model.p, p->model.n)) ||
                           (last.n >= p->model.n && !memcmp(last.p, p->model.p, p->model.n))));
}

const char *price_text(double money, char out[PRICE_TEXT])
{
    double size = fabs(money);
    int digits = size >= 1 || size == 0 ? 2 : 2 - (int)floor(log10(size));
    size_t n = (size_t)snprintf(out, PRICE_TEXT, "%.*f", digits < 12 ? digits : 12, money);
    n = n < PRICE_TEXT ? n : PRICE_TEXT - 1;
    while (n && strchr(out, '.') && out[n - 1] == '0')
        out[--n] = '\0';
    if (n && out[n - 1] == '.')
        out[--n] = '\0';
    return strcmp(out, "-0") == 0 ? "0" : out;
}

double price_of(const struct price *p, int64_t tokens_in, int64_t tokens_out)
{
    if (!p || tokens_in == FIELD_NONE_I64 || tokens_out == FIELD_NONE_I64)
        return NAN;
    return ((double)tokens_in * p->input + (double)tokens_out * p->output) / 1e6;
}

/* corpus: the grammar of the world's documents, and drawing them.
 *
 * Rules whose name ends in '@' exist once for each person, so that a document stays with one
 * person while the grammar stays context-free and its texts have one derivation each.
 */
#include <string.h>

#include "datasets/corpus.h"

const char *corpus_fill(struct arena *a, const char *pattern, const char *who, const char *what)
{
    struct buf b = {0};
    for (const char *p = pattern; *p;) {
        if (who && strncmp(p, "{who}", 5) == 0) {
            buf_addz(&b, who);
            p += 5;
        } else if (what && strncmp(p, "{what}", 6) == 0) {
            buf_addz(&b, what);
            p += 6;
        } else if (who && *p == '@') {
            buf_printf(&b, ".%s", who);
            p++;
        } else {
            buf_addc(&b, *p++);
        }
    }
    const char *out = arena_bytes(a, b.p ? b.p : "", b.n);
    buf_release(&b);
    return out;
}

static void add_person(struct grammar *g, int person)
{
    const struct corpus_person *who = &corpus_people[person];
    struct arena *a = &g->arena;
    grammar_add(g, "document", 1, corpus_fill(a, "{story@}", who->name, NULL));
    for (const struct corpus_line *l = corpus_lines; l->rule; l++)
        if (strchr(l->rule, '@'))
            grammar_add(g, corpus_fill(a, l->rule, who->name, NULL), l->weight,
                        corpus_fill(a, l->pattern, who->name, NULL));
    for (int k = 0; k < CORPUS_KINDS; k++)
        for (int s = 0; s < CORPUS_STATEMENTS; s++)
            grammar_add(g, corpus_fill(a, "fact@", who->name, NULL), 1,
                        corpus_fill(a, corpus_kinds[k].statement[s], who->name, who->value[k]));
    for (int other = 0; other < CORPUS_PEOPLE; other++)
        if (other != person)
            grammar_add(g, corpus_fill(a, "other@", who->name, NULL), 1, corpus_people[other].name);
}

int corpus_grammar(struct grammar *g, struct err *e)
{
    *g = (struct grammar){0};
    for (int i = 0; i < CORPUS_PEOPLE; i++)
        add_person(g, i);
    for (const struct corpus_line *l = corpus_lines; l->rule; l++)
        if (!strchr(l->rule, '@'))
            grammar_add(g, l->rule, l->weight, l->pattern);
    return grammar_close(g, "document", e);
}

struct doc corpus_doc(const struct grammar *g, uint64_t seed, int64_t index, struct buf *scratch,
                      struct arena *a)
{
    struct rng r = rng_make(seed, "corpus", (uint64_t)index);
    struct doc d = {0};
    buf_cut(scratch, 0);
    d.oracle_bits = grammar_draw(g, &r, scratch);
    d.text = str_copy(a, buf_str(scratch));
    d.id = str_printf(a, "c%llu-%06lld", (unsigned long long)seed, (long long)index);
    return d;
}

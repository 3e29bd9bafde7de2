/* example_set: examples of an example shard as padded batches, see finetune.h. */
#include "trainer/finetune.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int64_t length_of(const struct examples *x, int64_t i)
{
    return (int64_t)(x->offset[i + 1] - x->offset[i]);
}

/* Position t predicts id t + 1; the first id is predicted by nothing. */
static bool has_target(const struct example_set *s, int64_t i)
{
    int64_t n = length_of(s->x, i);
    const uint8_t *mask = s->x->mask + s->x->offset[i];
    if (!s->mask_prompt)
        return n > 1;
    for (int64_t t = 1; t < n; t++)
        if (mask[t])
            return true;
    return false;
}

int example_set_make(struct example_set *s, const struct examples *x, int64_t limit, int64_t vocab,
                     bool mask_prompt, const char *path, struct err *e)
{
    *s = (struct example_set){.x = x, .mask_prompt = mask_prompt};
    s->kept = mem_array((size_t)x->n + 1, sizeof *s->kept);
    for (int64_t i = 0; i < x->n; i++) {
        int64_t n = length_of(x, i);
        for (int64_t t = 0; t < n; t++)
            if (x->ids[x->offset[i] + (uint64_t)t] >= (uint64_t)vocab)
                return err_set(e,
                               "%s: example %lld: id %u is outside the model's vocabulary of "
                               "%lld",
                               path, (long long)i, x->ids[x->offset[i] + (uint64_t)t],
                               (long long)vocab);
        if (n > limit) {
            s->dropped++;
        } else if (!has_target(s, i)) {
            s->empty++;
        } else {
            s->kept[s->n++] = i;
            if (n > s->longest)
                s->longest = n;
        }
    }
    return 0;
}

void example_set_release(struct example_set *s)
{
    free(s->kept);
    *s = (struct example_set){0};
}

/* Is id t + 1 of example i a target? */
static bool counts(const struct example_set *s, int64_t i, int64_t t)
{
    return !s->mask_prompt || s->x->mask[s->x->offset[i] + (uint64_t)t + 1];
}

int64_t example_shape(const struct example_set *s, const int64_t *which, int64_t B, int64_t *T)
{
    int64_t longest = 2, valid = 0;
    for (int64_t b = 0; b < B; b++) {
        int64_t i = s->kept[which[b]], n = length_of(s->x, i);
        if (n > longest)
            longest = n;
        for (int64_t t = 0; t + 1 < n; t++)
            valid += counts(s, i, t);
    }
    *T = longest - 1;
    return valid;
}

void example_fill(const struct example_set *s, const int64_t *which, int64_t B, int64_t T,
                  int32_t *ids, int32_t *targets, uint64_t *seq)
{
    for (int64_t b = 0; b < B; b++) {
        int64_t i = s->kept[which[b]], n = length_of(s->x, i);
        const uint32_t *id = s->x->ids + s->x->offset[i];
        seq[b] = (uint64_t)i;
        for (int64_t t = 0; t < T; t++) {
            bool inside = t + 1 < n;
            ids[b * T + t] = inside ? (int32_t)id[t] : 0;
            targets[b * T + t] = inside && counts(s, i, t) ? (int32_t)id[t + 1] : -1;
        }
    }
}

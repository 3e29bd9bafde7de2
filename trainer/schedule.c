/* schedule: tokens to steps to learning rates, see schedule.h. */
#include "trainer/schedule.h"

#include <math.h>

#include "trainer/gpt2.h"

int schedule_tokens(struct str text, int64_t parameters, int64_t *tokens, struct err *e)
{
    struct str s = str_trim(text), number = s;
    double unit = 1, v;
    if (str_i64(s, tokens) == 0 && *tokens > 0)
        return 0;
    if (s.n > 1) {
        number.n--;
        switch (s.p[s.n - 1]) {
        case 'n':
            unit = (double)parameters;
            break;
        case 'K':
            unit = 1e3;
            break;
        case 'M':
            unit = 1e6;
            break;
        case 'G':
            unit = 1e9;
            break;
        case 'T':
            unit = 1e12;
            break;
        default:
            number = s;
        }
    }
    if (str_f64(number, &v) || !(v > 0) || !(v * unit < 1e18) || v * unit < 1)
        return err_code(e, EXIT_USAGE,
                        "train.tokens = %.*s is no number of tokens like 800K, 3.2G or 20n",
                        STR_ARG(text));
    *tokens = (int64_t)ceil(v * unit - 1e-6);
    return 0;
}

int64_t schedule_steps(int64_t tokens, int64_t batch, int64_t context)
{
    int64_t step = batch * context;
    return (tokens + step - 1) / step;
}

/* What is left of the rate above its floor, 0..1, at 0-based position `at` of `n`. */
static double shape(int kind, int64_t at, int64_t n, int64_t steps)
{
    const double pi = 3.14159265358979323846;
    double q = n > 0 ? (double)at / (double)n : 0;
    int64_t tail = (steps + 4) / 5;
    switch (kind) {
    case LR_LINEAR:
        return 1 - q;
    case LR_COSINE:
        return 0.5 * (1 + cos(pi * q));
    case LR_WSD:
        if (tail > n)
            tail = n;
        return at < n - tail ? 1 : 1 - sqrt((double)(at - (n - tail)) / (double)tail);
    default:
        return 1;
    }
}

double schedule_lr(const struct train_config *c, int64_t step, int64_t steps)
{
    int64_t warm = (int64_t)ceil(c->warmup * (double)steps - 1e-9);
    if (step <= warm)
        return c->lr * (double)step / (double)warm;
    double left = shape(c->schedule, step - warm - 1, steps - warm, steps);
    return c->schedule == LR_CONSTANT ? c->lr : c->lr * (c->min_lr + (1 - c->min_lr) * left);
}

double schedule_flops(const struct model_config *c, int64_t length)
{
    return 6.0 * (double)params_count(c) +
           6.0 * (double)c->layers * (double)c->width * (double)length;
}

/* reference: the ops in plain double, see reference.h. */
#include "tests/ops/reference.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>

double ref_mask(const struct ref_drop *d, int64_t s, int64_t e)
{
    if (d->p == 0)
        return 1;
    uint32_t w[4];
    rng_at(d->key, (uint64_t)e >> 2, d->seq[s], w);
    return (double)w[e & 3] < d->p * 4294967296.0 ? 0 : 1 / (1 - d->p);
}

void ref_embed_fwd(struct ref_shape s, double *y, const int32_t *ids, const double *wte,
                   const double *wpe, const int32_t *pos, struct ref_drop d)
{
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t t = 0; t < s.T; t++)
            for (int64_t c = 0; c < s.C; c++) {
                int64_t at = (b * s.T + t) * s.C + c;
                if (pos && pos[b] < 0) {
                    y[at] = 0;
                    continue;
                }
                int64_t of = ids[b * s.T + t] == -1 ? 0 : t; /* padding: as the first */
                int64_t p = (pos ? pos[b] : 0) + of;
                y[at] = wte[ids[b * s.T + of] * s.C + c] + wpe[p * s.C + c];
                y[at] *= ref_mask(&d, b, t * s.C + c);
            }
}

void ref_embed_bwd(struct ref_shape s, double *dwte, double *dwpe, const double *dy,
                   const int32_t *ids, struct ref_drop d)
{
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t t = 0; t < s.T; t++)
            for (int64_t c = 0; c < s.C; c++) {
                double g = dy[(b * s.T + t) * s.C + c] * ref_mask(&d, b, t * s.C + c);
                dwte[ids[b * s.T + t] * s.C + c] += g;
                dwpe[t * s.C + c] += g;
            }
}

static void moments(const double *x, int64_t n, double eps, double *mean, double *rstd)
{
    double m = 0, v = 0;
    for (int64_t c = 0; c < n; c++)
        m += x[c];
    m /= (double)n;
    for (int64_t c = 0; c < n; c++)
        v += (x[c] - m) * (x[c] - m);
    *mean = m;
    *rstd = 1 / sqrt(v / (double)n + eps);
}

void ref_add_norm_fwd(struct ref_shape s, double *sum, double *y, double *mean, double *rstd,
                      const double *x, const double *r, const double *w, const double *bias,
                      double eps, struct ref_drop d)
{
    for (int64_t i = 0; i < s.B * s.T; i++) {
        const double *row = x + i * s.C;
        if (r) {
            for (int64_t c = 0; c < s.C; c++)
                sum[i * s.C + c] =
                    row[c] + r[i * s.C + c] * ref_mask(&d, i / s.T, i % s.T * s.C + c);
            row = sum + i * s.C;
        }
        double m, v;
        moments(row, s.C, eps, &m, &v);
        for (int64_t c = 0; c < s.C; c++)
            y[i * s.C + c] = (row[c] - m) * v * w[c] + bias[c];
        if (mean)
            mean[i] = m;
        if (rstd)
            rstd[i] = v;
    }
}

void ref_add_norm_bwd(struct ref_shape s, double *dsum, double *dr, double *dw, double *dbias,
                      const double *dy, const double *sum, const double *w, double eps,
                      struct ref_drop d)
{
    for (int64_t i = 0; i < s.B * s.T; i++) {
        const double *x = sum + i * s.C, *g = dy + i * s.C;
        double m, r, a = 0, b = 0;
        moments(x, s.C, eps, &m, &r);
        for (int64_t c = 0; c < s.C; c++) {
            a += g[c] * w[c] / (double)s.C;
            b += g[c] * w[c] * (x[c] - m) * r / (double)s.C;
        }
        for (int64_t c = 0; c < s.C; c++) {
            double h = (x[c] - m) * r;
            dsum[i * s.C + c] += r * (g[c] * w[c] - a - h * b);
            dw[c] += g[c] * h;
            dbias[c] += g[c];
            if (dr)
                dr[i * s.C + c] = dsum[i * s.C + c] * ref_mask(&d, i / s.T, i % s.T * s.C + c);
        }
    }
}

static const double gelu_a = 0.79788456080286535588; /* sqrt(2 / pi) */

double ref_gelu(double x)
{
    return 0.5 * x * (1 + tanh(gelu_a * (x + 0.044715 * x * x * x)));
}

double ref_gelu_grad(double x)
{
    double t = tanh(gelu_a * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_a * (1 + 3 * 0.044715 * x * x);
}

void ref_linear_fwd(int64_t N, int64_t I, int64_t O, double *y, const double *x, const double *w,
                    bool out_in, const double *bias, double *pre)
{
    for (int64_t n = 0; n < N; n++)
        for (int64_t o = 0; o < O; o++) {
            double s = bias ? bias[o] : 0;
            for (int64_t i = 0; i < I; i++)
                s += x[n * I + i] * (out_in ? w[o * I + i] : w[i * O + o]);
            if (pre)
                pre[n * O + o] = s;
            y[n * O + o] = pre ? ref_gelu(s) : s;
        }
}

void ref_linear_bwd(int64_t N, int64_t I, int64_t O, double *dx, double *dw, double *dbias,
                    double *dy, const double *x, const double *w, bool out_in, const double *pre)
{
    for (int64_t n = 0; n < N; n++)
        for (int64_t o = 0; o < O; o++) {
            if (pre)
                dy[n * O + o] *= ref_gelu_grad(pre[n * O + o]);
            double g = dy[n * O + o];
            if (dbias)
                dbias[o] += g;
            for (int64_t i = 0; i < I; i++) {
                int64_t at = out_in ? o * I + i : i * O + o;
                dw[at] += x[n * I + i] * g;
                if (dx)
                    dx[n * I + i] += g * w[at];
            }
        }
}

/* Probabilities of query i of one head into p[0 .. i]; returns the log of the denominator. */
static double softmax_row(const double *q, const double *k, int64_t width, int64_t i, int64_t HS,
                          double *p)
{
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= i; j++) {
        p[j] = 0;
        for (int64_t c = 0; c < HS; c++)
            p[j] += q[i * width + c] * k[j * width + c];
        p[j] /= sqrt((double)HS);
        max = fmax(max, p[j]);
    }
    for (int64_t j = 0; j <= i; j++)
        sum += exp(p[j] - max);
    for (int64_t j = 0; j <= i; j++)
        p[j] = exp(p[j] - max) / sum;
    return max + log(sum);
}

void ref_attention_fwd(struct ref_shape s, double *y, double *lse, const double *qkv,
                       struct ref_drop d)
{
    int64_t HS = s.C / s.heads, W = 3 * s.C;
    double *p = mem_array((size_t)s.T, sizeof *p);
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.heads; h++)
            for (int64_t i = 0; i < s.T; i++) {
                const double *q = qkv + b * s.T * W + h * HS, *v = q + 2 * s.C;
                double *out = y + (b * s.T + i) * s.C + h * HS;
                lse[(b * s.heads + h) * s.T + i] = softmax_row(q, q + s.C, W, i, HS, p);
                for (int64_t c = 0; c < HS; c++)
                    out[c] = 0;
                for (int64_t j = 0; j <= i; j++) {
                    double w = p[j] * ref_mask(&d, b, (h * s.T + i) * s.T + j);
                    for (int64_t c = 0; c < HS; c++)
                        out[c] += w * v[j * W + c];
                }
            }
    free(p);
}

void ref_attention_bwd(struct ref_shape s, double *dqkv, const double *dy, const double *qkv,
                       struct ref_drop d)
{
    int64_t HS = s.C / s.heads, W = 3 * s.C;
    double *p = mem_array((size_t)s.T, sizeof *p), *dp = mem_array((size_t)s.T, sizeof *p);
    memset(dqkv, 0, (size_t)(s.B * s.T * W) * sizeof *dqkv);
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.heads; h++)
            for (int64_t i = 0; i < s.T; i++) {
                const double *q = qkv + b * s.T * W + h * HS, *k = q + s.C, *v = k + s.C;
                const double *g = dy + (b * s.T + i) * s.C + h * HS;
                double *dq = dqkv + b * s.T * W + h * HS, *dk = dq + s.C, *dv = dk + s.C;
                double mean = 0;
                softmax_row(q, k, W, i, HS, p);
                for (int64_t j = 0; j <= i; j++) {
                    double m = ref_mask(&d, b, (h * s.T + i) * s.T + j);
                    dp[j] = 0;
                    for (int64_t c = 0; c < HS; c++) {
                        dp[j] += g[c] * v[j * W + c] * m;
                        dv[j * W + c] += p[j] * m * g[c];
                    }
                    mean += p[j] * dp[j];
                }
                for (int64_t j = 0; j <= i; j++) {
                    double ds = p[j] * (dp[j] - mean) / sqrt((double)HS);
                    for (int64_t c = 0; c < HS; c++) {
                        dq[i * W + c] += ds * k[j * W + c];
                        dk[j * W + c] += ds * q[i * W + c];
                    }
                }
            }
    free(p);
    free(dp);
}

void ref_classifier(int64_t N, int64_t V, double *loss, double *dlogits, const double *logits,
                    const int32_t *targets, double scale)
{
    for (int64_t n = 0; n < N; n++) {
        const double *x = logits + n * V;
        double max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < V; i++)
            max = fmax(max, x[i]);
        for (int64_t i = 0; i < V; i++)
            sum += exp(x[i] - max);
        bool on = targets[n] >= 0;
        loss[n] = on ? log(sum) + max - x[targets[n]] : 0;
        for (int64_t i = 0; dlogits && i < V; i++)
            dlogits[n * V + i] =
                on ? (exp(x[i] - max) / sum - (i == targets[n] ? 1 : 0)) * scale : 0;
    }
}

void ref_adamw(int64_t n, double *p, const double *g, double *m, double *v, bool decay,
               const struct ref_adamw *h)
{
    double c1 = 1 - pow(h->b1, (double)h->step), c2 = 1 - pow(h->b2, (double)h->step);
    for (int64_t i = 0; i < n; i++) {
        double d = g[i] * h->gscale;
        if (decay)
            p[i] -= h->lr * h->wd * p[i];
        m[i] = h->b1 * m[i] + (1 - h->b1) * d;
        v[i] = h->b2 * v[i] + (1 - h->b2) * d * d;
        p[i] -= h->lr * (m[i] / c1) / (sqrt(v[i] / c2) + h->eps);
    }
}

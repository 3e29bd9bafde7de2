/* bench: how fast text becomes ids, and a vocabulary is trained, beside what the machine can read.
 *
 * Speeds are bytes a CPU second of this thread, best of five, so a loaded machine does not blur
 * them. Peak: memcpy of the same text, and summing it, which is the least an encoder must do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "tokenizer/bpe.h"
#include "tokenizer/train.h"

enum { TRIES = 5 };

static double cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char *data(const char *name, char *to, size_t n)
{
    const char *dir = getenv("ASSAY_DATA");
    snprintf(to, n, "%s/tokenizer/%s", dir && *dir ? dir : "../shared/data", name);
    return access(to, R_OK) == 0 ? to : NULL;
}

static void machine(struct str text)
{
    char *copy = mem_alloc(text.n);
    double best_copy = 1e9, best_sum = 1e9;
    uint64_t keep = 0;
    for (int i = 0; i < TRIES; i++) {
        double t = cpu();
        uint64_t sum = 0, word;
        memcpy(copy, text.p, text.n);
        double u = cpu();
        for (size_t k = 0; k + 8 <= text.n; k += 8) {
            memcpy(&word, copy + k, 8);
            sum += word;
        }
        keep += sum;
        double w = cpu();
        best_copy = u - t < best_copy ? u - t : best_copy;
        best_sum = w - u < best_sum ? w - u : best_sum;
    }
    if (keep == 1) /* the sums are used, so that they are made */
        printf(" ");
    printf("machine     memcpy %.0f MB/s, reading %.0f MB/s\n", (double)text.n / best_copy * 1e-6,
           (double)text.n / best_sum * 1e-6);
    free(copy);
}

static void encoding(const char *label, const char *file, struct str text, struct encode_options o)
{
    char path[1024];
    struct err e = {0};
    struct vocab v;
    double t = cpu(), load, best = 1e9;
    struct encode_counts c = {0};
    if (!data(file, path, sizeof path))
        return;
    if (vocab_load(&v, path, NULL, &e)) {
        printf("%-11s %s\n", label, e.msg);
        return;
    }
    load = cpu() - t;
    for (int i = 0; i < TRIES; i++) {
        struct encoder *x = encoder_new(&v, o, &e);
        struct ids ids = {0};
        t = cpu();
        if (encode(x, text, &ids, &e))
            printf("%s\n", e.msg);
        t = cpu() - t;
        best = t < best ? t : best;
        c = encoder_counts(x);
        encoder_free(x);
        ids_release(&ids);
    }
    printf("%-11s encodes %.1f MB/s-cpu: %.2f MB to %lld tokens, %.1f%% of %lld pieces cached, "
           "vocabulary loads in %.0f ms-cpu\n",
           label, (double)text.n / best * 1e-6, (double)text.n * 1e-6, (long long)c.tokens,
           100.0 * (double)c.cached / (double)c.pieces, (long long)c.pieces, load * 1e3);
    vocab_release(&v);
}

static void training(struct str text, size_t merges)
{
    struct err e = {0};
    struct trainer *t;
    struct merge *out;
    size_t n;
    double a = cpu(), b, c;
    t = trainer_new(split_find(STR_LIT("gpt2"), &e), &e);
    if (!t || trainer_add(t, text, &e)) {
        printf("train       %s\n", e.msg);
        trainer_free(t);
        return;
    }
    b = cpu();
    if (trainer_run(t, merges, &out, &n, &e))
        printf("train       %s\n", e.msg);
    else
        free(out);
    c = cpu();
    printf("train       %.2f MB to %zu merges in %.2f s-cpu: counting %.2f, merging %.2f\n",
           (double)text.n * 1e-6, merges, c - a, b - a, c - b);
    trainer_free(t);
}

int main(void)
{
    char path[1024];
    struct buf text = {0}, big = {0};
    struct err e = {0};
    struct rusage use;
    if (!data("war-and-peace.txt", path, sizeof path)) {
        printf("tokenizer   skipped: war-and-peace.txt is not here\n");
        return 0;
    }
    if (file_read(path, &text, 0, &e)) {
        fprintf(stderr, "bench_tokenizer: %s\n", e.msg);
        return 1;
    }
    machine(buf_str(&text));
    encoding("gpt2", "vocab.bpe", buf_str(&text), (struct encode_options){0});
    encoding("gpt2-ranks", "r50k_base.tiktoken", buf_str(&text), (struct encode_options){0});
    encoding("gpt2-pcre2", "vocab.bpe", buf_str(&text),
             (struct encode_options){.plain_split = true});
    encoding("cl100k", "cl100k_base.tiktoken", buf_str(&text), (struct encode_options){0});
    encoding("o200k", "o200k_base.tiktoken", buf_str(&text), (struct encode_options){0});
    training((struct str){text.p, 400000}, 1024);
    training(buf_str(&text), 8192 - 257);
    for (int i = 0; i < 6; i++)
        buf_adds(&big, buf_str(&text));
    training(buf_str(&big), 20000);
    getrusage(RUSAGE_SELF, &use);
    printf("tokenizer   peak resident %.0f MB\n", (double)use.ru_maxrss / 1024);
    buf_release(&text);
    buf_release(&big);
    return 0;
}

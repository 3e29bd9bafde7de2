/* cmd_vocab_info: `assay vocab info`, what a vocabulary is. */
#include <stdio.h>

#include "base/command.h"
#include "base/log.h"
#include "base/regex.h"
#include "tokenizer/vocab.h"

struct options {
    struct str vocab, pattern, eot;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"vocab", FIELD_STR, AT(vocab), NULL, .help = "vocabulary: a file or its folder",
     .flags = FIELD_POSITIONAL},
    {"pattern", FIELD_STR, AT(pattern), "",
     .help = "split pattern; default: what the vocabulary says"},
    {"eot", FIELD_STR, AT(eot), "",
     .help = "text of the end-of-text token; default: what the vocabulary says"},
    {0},
};
#undef AT
static const struct schema options = {"vocab info", 1, sizeof(struct options), fields};

static void print_specials(const struct vocab *v)
{
    for (int64_t id = 0; id < v->size; id++) {
        struct str s;
        if (vocab_kind(v, id) == TOKEN_SPECIAL && vocab_bytes(v, id, &s))
            printf("special    %lld %.*s\n", (long long)id, STR_ARG(s));
    }
}

static void print_lengths(const struct vocab *v)
{
    int64_t bytes = 0;
    size_t longest = 0;
    for (int64_t id = 0; id < v->size; id++) {
        struct str s;
        if (vocab_kind(v, id) != TOKEN_ORDINARY || !vocab_bytes(v, id, &s))
            continue;
        bytes += (int64_t)s.n;
        longest = s.n > longest ? s.n : longest;
    }
    printf("bytes      %.2f a token, the longest has %zu\n", (double)bytes / (double)v->ordinary,
           longest);
}

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct options *o = opt;
    const char *path = str_dup(a, o->vocab);
    struct vocab_options vo = {.pattern = o->pattern, .eot = o->eot};
    struct vocab v;
    if (vocab_load(&v, path, &vo, e))
        return -1;
    printf("vocabulary %s\n", path);
    printf("size       %lld ids: %lld ordinary tokens, %zu special\n", (long long)v.size,
           (long long)v.ordinary, v.nspecial);
    printf("pattern    %s\n", v.pattern->name);
    if (v.merges)
        printf("merges     %zu, listed\n", v.nmerges);
    else
        printf("merges     by rank\n");
    print_lengths(&v);
    if (v.eot >= 0)
        printf("eot        %d\n", (int)v.eot);
    else
        printf("eot        none\n");
    print_specials(&v);
    printf("hash       %s\n", v.hash);
    printf("unicode    %s (PCRE2 %s)\n", regex_unicode(), regex_version());
    if (v.note.n)
        log_warn("%s: %.*s", path, STR_ARG(v.note));
    vocab_release(&v);
    return EXIT_DONE;
}

const struct command cmd_vocab_info = {
    .room = "tokenizer",
    .name = "vocab info",
    .summary = "describe a vocabulary: size, pattern, special tokens, hash",
    .details = "Reads vocab.bpe with encoder.json, .tiktoken, Hugging Face's tokenizer.json, or a\n"
               "folder with one of them. Equal vocabularies have equal hashes, whatever file they\n"
               "come from.",
    .options = &options,
    .run = run,
};

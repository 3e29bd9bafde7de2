/* cmd_encode: `assay encode`, text to ids, one document a line. */
#include <stdio.h>

#include "base/command.h"
#include "base/log.h"
#include "base/stream.h"
#include "tokenizer/bpe.h"

#define MOST_BYTES ((size_t)UINT32_MAX - 1)

struct options {
    struct str vocab, file, pattern, eot;
    int special, bad_utf8;
    bool lines;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"vocab", FIELD_STR, AT(vocab), NULL, .help = "vocabulary: a file or its folder"},
    {"file", FIELD_STR, AT(file), "-", .help = "text, plain, .gz or .zst; - is standard input",
     .flags = FIELD_POSITIONAL},
    {"lines", FIELD_BOOL, AT(lines), "false",
     .help = "each line is a document, without its line feed; else the whole file is one"},
    {"special", FIELD_ENUM, AT(special), "plain", .choices = special_policy_names,
     .help = "text of a special token is plain text, is allowed to be that token, or is an error"},
    {"bad_utf8", FIELD_ENUM, AT(bad_utf8), "replace", .choices = bad_utf8_names,
     .help = "bytes that are no UTF-8 become U+FFFD, are an error, or stay"},
    {"pattern", FIELD_STR, AT(pattern), "",
     .help =
         "split pattern: gpt2, cl100k, o200k, llama3, qwen2; default: what the vocabulary says"},
    {"eot", FIELD_STR, AT(eot), "",
     .help = "text of the end-of-text token; default: what the vocabulary says"},
    {0},
};
#undef AT
static const struct schema options = {"encode", 1, sizeof(struct options), fields};

static int put(struct encoder *x, struct str text, struct ids *ids, struct err *e)
{
    ids->n = 0;
    if (encode(x, text, ids, e))
        return -1;
    for (size_t i = 0; i < ids->n; i++)
        printf(i ? " %d" : "%d", (int)ids->v[i]);
    putchar('\n');
    return 0;
}

static int whole(struct stream *in, struct buf *text, struct err *e)
{
    for (;;) {
        char *p = buf_room(text, 65536);
        ssize_t n =
            p ? stream_read(in, p, 65536, e) : err_set(e, "more than 4 GiB in one document");
        if (n <= 0)
            return (int)n;
        text->n += (size_t)n;
    }
}

static int encode_all(const struct options *o, struct encoder *x, struct arena *a, struct err *e)
{
    const char *path = str_dup(a, o->file);
    struct stream *in = stream_open(path, e);
    struct buf text = {.max = MOST_BYTES};
    struct ids ids = {0};
    int got = -1;
    if (!in)
        return -1;
    if (!o->lines) {
        got = whole(in, &text, e);
        if (got == 0 && put(x, buf_str(&text), &ids, e))
            got = err_wrap(e, "%s", path);
    }
    while (o->lines && (got = stream_line(in, &text, MOST_BYTES, e)) > 0) {
        if (put(x, buf_str(&text), &ids, e)) {
            got = err_wrap(e, "%s:%lld", path, (long long)stream_lineno(in));
            break;
        }
    }
    ids_release(&ids);
    buf_release(&text);
    stream_close(in);
    return got;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct options *o = opt;
    struct vocab_options vo = {.pattern = o->pattern, .eot = o->eot};
    struct encode_options eo = {.special = (enum special_policy)o->special,
                                .bad_utf8 = (enum bad_utf8)o->bad_utf8};
    struct encoder *x = NULL;
    struct encode_counts n;
    struct vocab v;
    int r = -1;
    if (vocab_load(&v, str_dup(a, o->vocab), &vo, e))
        return -1;
    if (v.note.n)
        log_warn("%.*s: %.*s", STR_ARG(o->vocab), STR_ARG(v.note));
    x = encoder_new(&v, eo, e);
    if (x && (r = encode_all(o, x, a, e)) == 0) {
        n = encoder_counts(x);
        if (n.bad_texts)
            log_warn("%lld of %lld documents had bytes that are no UTF-8; %s",
                     (long long)n.bad_texts, (long long)n.texts,
                     o->bad_utf8 == BAD_UTF8_RAW ? "they were encoded as they are"
                                                 : "they became U+FFFD");
    }
    encoder_free(x);
    vocab_release(&v);
    return r;
}

const struct command cmd_encode = {
    .room = "tokenizer",
    .name = "encode",
    .summary = "text to token ids, one document a line",
    .details =
        "By default the text of a special token, such as <|endoftext|>, is ordinary text, and\n"
        "bytes that are no UTF-8 become U+FFFD, which is said on stderr.",
    .options = &options,
    .run = run,
};

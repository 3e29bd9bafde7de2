/* cmd_decode: `assay decode`, ids back to bytes. */
#include <stdio.h>

#include "base/command.h"
#include "base/stream.h"
#include "tokenizer/bpe.h"

#define MOST_BYTES ((size_t)1 << 31)

struct options {
    struct str vocab, file, eot;
    bool lines;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"vocab", FIELD_STR, AT(vocab), NULL, .help = "vocabulary: a file or its folder"},
    {"file", FIELD_STR, AT(file), "-", .help = "ids, one document a line; - is standard input",
     .flags = FIELD_POSITIONAL},
    {"lines", FIELD_BOOL, AT(lines), "false",
     .help = "a line feed behind each document; else documents follow each other"},
    {"eot", FIELD_STR, AT(eot), "",
     .help = "text of the end-of-text token; default: what the vocabulary says"},
    {0},
};
#undef AT
static const struct schema options = {"decode", 1, sizeof(struct options), fields};

/* The numbers of one line. */
static int parse_ids(struct str line, struct ids *ids, struct err *e)
{
    ids->n = 0;
    for (size_t i = 0; i < line.n;) {
        size_t from = i;
        int64_t id = 0;
        if (line.p[i] == ' ' || line.p[i] == '\t' || line.p[i] == '\r' || line.p[i] == ',') {
            i++;
            continue;
        }
        for (; i < line.n && line.p[i] >= '0' && line.p[i] <= '9' && id <= INT32_MAX; i++)
            id = id * 10 + (line.p[i] - '0');
        if (i == from || id > INT32_MAX)
            return err_set(e, "\"%.*s\" is not an id",
                           (int)(line.n - from > 20 ? 20 : line.n - from), line.p + from);
        ids_add(ids, (int32_t)id);
    }
    return 0;
}

static int decode_all(const struct options *o, const struct vocab *v, struct arena *a,
                      struct err *e)
{
    const char *path = str_dup(a, o->file);
    struct stream *in = stream_open(path, e);
    struct buf line = {0}, text = {0};
    struct ids ids = {0};
    int got;
    if (!in)
        return -1;
    while ((got = stream_line(in, &line, MOST_BYTES, e)) > 0) {
        buf_cut(&text, 0);
        if (parse_ids(buf_str(&line), &ids, e) || decode(v, ids.v, ids.n, &text, e)) {
            got = err_wrap(e, "%s:%lld", path, (long long)stream_lineno(in));
            break;
        }
        if (o->lines)
            buf_addc(&text, '\n');
        if (text.n)
            fwrite(text.p, 1, text.n, stdout);
    }
    ids_release(&ids);
    buf_release(&line);
    buf_release(&text);
    stream_close(in);
    return got;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct options *o = opt;
    /* Decoding never splits, so a pattern that is not one of ours need not stop it. */
    struct vocab_options vo = {.pattern = STR_LIT("gpt2"), .eot = o->eot};
    struct vocab v;
    int r;
    if (vocab_load(&v, str_dup(a, o->vocab), &vo, e))
        return -1;
    r = decode_all(o, &v, a, e);
    vocab_release(&v);
    return r;
}

const struct command cmd_decode = {
    .room = "tokenizer",
    .name = "decode",
    .summary = "token ids back to bytes",
    .details =
        "The output is bytes, not text: ids may end within a character. Special tokens give\n"
        "their text. An id that the vocabulary does not have is an error with its place.",
    .options = &options,
    .run = run,
};

/* sources: the table of known public data, see sources.h.
 *
 * Hashes: vocabularies as pinned in openai/tiktoken (tiktoken_ext/openai_public.py);
 * tinyshakespeare and instruction-data of the files in karpathy/char-rnn@6f9487a6fe and
 * rasbt/LLMs-from-scratch@28c65cdfbc; the two FineWeb shards as pinned by several public projects
 * for revision 889765ea of the data set (Git LFS object ids are SHA-256).
 */
#include "datasets/sources.h"

#include <string.h>

#include "base/str.h"

#define OPENAI "https://openaipublic.blob.core.windows.net"
#define GITHUB "https://raw.githubusercontent.com"
#define HUB    "https://huggingface.co"
#define SHARDS "datasets/kjj0/fineweb10B-gpt2/resolve/889765ea1f903759787add96995d81171b632d0c/"

static const struct source_file gpt2[] = {
    {"gpt-2/encodings/main/vocab.bpe", 0, 0,
     "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"},
    {"gpt-2/encodings/main/encoder.json", 0, 0,
     "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"},
    {0}};
static const struct source_file r50k[] = {
    {"encodings/r50k_base.tiktoken", 0, 0,
     "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"},
    {0}};
static const struct source_file cl100k[] = {
    {"encodings/cl100k_base.tiktoken", 0, 0,
     "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"},
    {0}};
static const struct source_file o200k[] = {
    {"encodings/o200k_base.tiktoken", 0, 0,
     "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"},
    {0}};
static const struct source_file shakespeare[] = {
    {"karpathy/char-rnn/master/data/tinyshakespeare/input.txt", 0, 0,
     "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"},
    {0}};
static const struct source_file instruct[] = {
    {"rasbt/LLMs-from-scratch/main/ch07/01_main-chapter-code/instruction-data.json", 0, 0,
     "7e09a9af353722ca15c18bc580f093f9c39d3178335a75177319cb1e1d163944"},
    {0}};
/* 1e8 tokens a file in llm.c's format; validation first, so that --files 1 is the held-out one. */
static const struct source_file fineweb[] = {
    {SHARDS "fineweb_val_000000.bin", 0, 0,
     "5b95c8e0966f0861685b307b23dc5ae42b228ef74b28cb499784ae021f201640"},
    {SHARDS "fineweb_train_000001.bin", 0, 0,
     "771fa4a99b9fe0946ffb6e848b4ba5c6a9b0fe87860ebf03bc2c1c7e45f8178e"},
    {SHARDS "fineweb_train_%06d.bin", 2, 103, NULL},
    {0}};

const struct source sources[] = {
    {"gpt2", "GPT-2 vocabulary: vocab.bpe and encoder.json, 50,257 tokens",
     "modified MIT (OpenAI 2019)", OPENAI, gpt2, 0},
    {"r50k_base", "the same vocabulary as one .tiktoken file", "MIT (openai/tiktoken)", OPENAI,
     r50k, 0},
    {"cl100k_base", "vocabulary of GPT-4's time, 100,256 ranks", "MIT (openai/tiktoken)", OPENAI,
     cl100k, 0},
    {"o200k_base", "vocabulary of GPT-4o's time, 199,998 ranks", "MIT (openai/tiktoken)", OPENAI,
     o200k, 0},
    {"tinyshakespeare", "1.1 MB of Shakespeare's plays as one text",
     "public domain text; repository MIT (karpathy/char-rnn)", GITHUB, shakespeare, 0},
    {"instruction-data", "1,100 instructions with input and output, JSON",
     "Apache-2.0 (rasbt/LLMs-from-scratch)", GITHUB, instruct, 0},
    {"fineweb10B-gpt2",
     "FineWeb 10BT sample in GPT-2 tokens: 1 validation and 103 training shards, 20.8 GB",
     "ODC-BY 1.0 (HuggingFaceFW/fineweb); shards by kjj0", HUB, fineweb, 1024 + 2 * 100000000},
    {0}};

const struct source *source_find(const char *name)
{
    for (const struct source *s = sources; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

const char *source_near(const char *name)
{
    const char *near = NULL;
    int best = 4;

    for (const struct source *s = sources; s->name; s++) {
        int d = str_distance(name, s->name);
        if (d < best) {
            best = d;
            near = s->name;
        }
    }
    return near;
}

static size_t rows(const struct source_file *f)
{
    return f->last > 0 ? (size_t)(f->last - f->first) + 1 : 1;
}

size_t source_count(const struct source *s)
{
    size_t n = 0;

    for (const struct source_file *f = s->files; f->path; f++)
        n += rows(f);
    return n;
}

const char *source_path(const struct source *s, size_t i, const char **sha256, struct arena *a)
{
    const struct source_file *f = s->files;
    struct str head, rest;

    for (; i >= rows(f); f++)
        i -= rows(f);
    *sha256 = f->sha256;
    if (f->last == 0)
        return f->path;
    rest = str_z(f->path);
    head = str_cut(&rest, '%'); /* the pattern is taken apart, not given to printf */
    return arena_printf(a, "%.*s%06d%s", STR_ARG(head), f->first + (int)i, rest.p + 3);
}

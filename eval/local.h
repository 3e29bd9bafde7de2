/* local: a checkpoint folder opened on a backend, for whoever evaluates it.
 */
#ifndef EVAL_LOCAL_H
#define EVAL_LOCAL_H

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "formats/run.h"
#include "tokenizer/vocab.h"
#include "trainer/gpt2.h"
#include "trainer/rendezvous.h"

struct local_options {
    const char *backend;     /* NULL: auto */
    int64_t threads, batch;  /* threads 0: all */
    struct rendezvous *meet; /* several ranks: its device and cores of a machine are its share */
    int64_t (*rows)(int64_t context); /* batch 0: this many for the model's context */
    bool decode;                      /* with a KV cache */
    int precision;                    /* enum precision */
};
struct local_model {
    struct backend backend;
    struct gpt2 *m;
    struct model_config config;
    int64_t eos;           /* of config.json; -1: not said */
    const char *precision; /* as results state it: "fp32", "bf16 weights" */
    const char *dir;       /* the checkpoint folder itself, `latest` followed */
    struct arena arena;
    bool open;
};
/* dir: a checkpoint folder or one that holds `latest`. */
int local_open(struct local_model *l, const char *dir, const struct local_options *o,
               struct err *e);
void local_close(struct local_model *l); /* accepts a zeroed one */

/* The vocabulary that lies in a checkpoint's folder, a file or the folder itself; NULL: none. */
const char *local_own_vocab(const char *dir, struct arena *a);
/* Loads a vocabulary and checks it against the model: more ids than the model has is an error.
 * path NULL or "": tokenizer.json or vocab.tiktoken, or vocab.json + merges.txt, of the folder. One that is
 * given must be the one that the model was trained with, as local_same_vocab knows it. */
int local_vocab(const struct local_model *l, const char *path, struct vocab *v, struct err *e);
/* Refuses a vocabulary (by its hash, empty: unknown; what: where it is from) that is not the one that
 * the checkpoint's manifest names, or without such a manifest the one in its folder. Where there is
 * neither, it says that only the size (ids below `size`) speaks for it. */
int local_same_vocab(const struct local_model *l, const char *what, struct str hash, int64_t size,
                     struct err *e);
/* The id that ends a text: the vocabulary's, else the checkpoint's; -1: neither. */
int32_t local_eot(const struct local_model *l, const struct vocab *v);

#endif

/* finetune_private: one run of finetune_run(), shared by finetune.c and finetune_open.c. */
#ifndef TRAINER_FINETUNE_PRIVATE_H
#define TRAINER_FINETUNE_PRIVATE_H

#include "base/file.h"
#include "base/log.h"
#include "formats/manifest.h"
#include "trainer/finetune.h"
#include "trainer/gpt2.h"
#include "trainer/metrics.h"
#include "trainer/ranks.h"
#include "trainer/scaler.h"

struct tuner {
    const struct finetune_options *o;
    struct finetune_config c;
    struct model_config model;
    struct arena arena;
    struct stage stage;
    struct file_lock lock;
    struct ranks ranks;
    struct examples train_file, val_file;
    struct example_set train, val;
    struct backend backend;
    struct gpt2 *m;
    struct metrics metrics;
    struct progress bar;
    struct scaler scaler;                    /* scale 0: not fp16 */
    int64_t eos, micro, steps, step, tokens; /* steps: if no epoch is saved */
    int64_t updates, epochs, best_epoch;     /* updates: steps but the overflows; 0: none yet */
    double best_loss, first_loss, begun;     /* first: before the first step */
    float *best, *loss;
    int32_t *ids, *targets; /* of this rank's part of a batch */
    uint64_t *seq;
    int64_t *order, *rows; /* of an epoch; of a validation batch */
    bool stop;             /* some rank got a signal */
};

/* Before the first step (trainer/finetune_open.c). */
int tuner_prepare(struct tuner *t, struct err *e); /* the model's shape, the key */
int tuner_same(struct tuner *t, struct err *e);    /* of several ranks: all are of one run */
int tuner_open_examples(struct tuner *t, struct err *e);
int tuner_open_model(struct tuner *t, struct err *e); /* with the weights of o->init */
void tuner_release(struct tuner *t);

#endif

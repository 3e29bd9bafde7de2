/* starts: can a run's training start on this machine? Asked before hours of fetching: nothing is
 * trained or written.
 */
#ifndef PIPELINES_STARTS_H
#define PIPELINES_STARTS_H

#include "base/err.h"
#include "formats/run.h"

/* Opens the run's backend and asks it for the run's precisions. *backend (may be NULL): its name. */
int starts_here(const struct run *r, const char **backend, struct err *e);
/* Is the model of [model] from there, and has it the context that [eval] wants? */
int model_here(const struct run *r, struct arena *a, struct err *e);
/* A run that starts at a checkpoint which brings its vocabulary reads by that one, unless the run file
 * names another: [vocab] from. */
void model_brings(struct run *r, struct arena *a);
/* Are the tasks and rows of [eval] tasks there that lie behind $DATA, and do the rows of all fit their
 * tasks? data: that folder, NULL or "" if nobody said. Whether others are there is looked at when the
 * run's rules are written. */
int tasks_here(const struct run *r, const char *data, struct arena *a, struct err *e);
/* Is there room on disk for what the run fetches into data and for its checkpoints in dir, its folder?
 * What is there already and what is not known count nothing, so a refusal is sure. */
int room_here(const struct run *r, const char *data, const char *dir, struct arena *a,
              struct err *e);
/* The parts of it: the bytes that are still to come into data; those that the training and fine-tuning
 * will at least put into dir beside what is there, and what of; whether both are one disk; the refusal
 * where `left` (-1: unknown) is less than `need`. */
struct room_plan {
    int64_t at_once, one; /* checkpoints, and the bytes of each */
    int64_t there, tuned; /* bytes of those that are there, and of fine-tuned weights beside them */
};
int64_t room_to_fetch(const struct run *r, const char *data, struct arena *a);
int64_t room_to_write(const struct run *r, const char *dir, struct room_plan *plan,
                      struct arena *a);
bool room_shared(const char *x, const char *y, struct arena *a);
int room_in(const char *dir, int64_t left, int64_t need, const char *what, struct err *e);
/* How many of the machine's devices open here: fewer than its file says are warned of, fewer than
 * train.ranks refused. Before anything else opens one: it forks. */
int devices_here(const struct run *r, const struct hardware *h, struct err *e);
/* Whether the answer for one run is that for the other. */
bool starts_alike(const struct run *a, const struct run *b);

#endif

/* train_folder: the folder of a training run, DIR/{step-00000100/, ..., latest, best, metrics.jsonl,
 * manifest.json}. Which checkpoints stay, and where a run goes on.
 */
#ifndef TRAINER_TRAIN_FOLDER_H
#define TRAINER_TRAIN_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "formats/checkpoint.h"

char *folder_step(struct arena *a, const char *dir, int64_t step); /* "DIR/step-00000100" */
/* Steps of the checkpoints that are there, ascending. A folder that is missing has none. */
int folder_list(const char *dir, struct i64s *steps, struct arena *a, struct err *e);
/* The newest checkpoint's state; 1 found, 0 none, -1 damaged. */
int folder_newest(const char *dir, struct train_state *s, struct arena *a, struct err *e);
/* Points latest and best (0: none yet) at their steps. */
int folder_links(const char *dir, int64_t latest, int64_t best, struct err *e);
/* Removes all but the newest `keep` regular checkpoints (steps that are multiples of `every`, or
 * `last`), the best and the newest of all. So a checkpoint that an interruption left behind goes
 * once a regular one is there, and an interrupted run ends with the folders of a straight one. */
int folder_prune(const char *dir, int64_t every, int64_t last, int64_t keep, int64_t best,
                 struct err *e);
/* Removes a run: checkpoints, links, metrics, what killed writers left. Nothing else. */
int folder_clear(const char *dir, struct err *e);

/* A run of other options does not wipe the one that is there (trainer/train_aside.c): it is put aside
 * into DIR/.replaced, renamed, and removed behind the new one's first checkpoint that is not an
 * interruption's (folder_replaced). Until then whoever starts in the folder and is not the new run
 * (goes_on) finds the old one in its place again: folder_settle, before anything else is read; a
 * checkpoint that the new one has, an interruption's, goes to DIR/aside-N and is not lost. A fine-tuning (DIR/checkpoint) likewise, until its manifest is there. */
int folder_put_aside(const char *dir, struct err *e);
int folder_settle(const char *dir, bool goes_on, struct err *e);
int folder_replaced(const char *dir, struct err *e);

/* How a run in the folder ended that failed, DIR/failed.json {"sentence", "step", "ended"}: begin takes
 * the one before away, failed writes it. Interrupted (EXIT_INCOMPLETE) is no failure. */
void folder_begin(const char *dir);
void folder_failed(const char *dir, int64_t step, const struct err *why);
/* The launcher of its ranks, behind them: one was killed, and rank 0 may have been, or hung. The step is
 * the journal's last. */
void folder_killed(const char *dir, const struct err *why);
/* It failed before it could begin. In a run's folder (RUN/pretrain beside RUN/run.ini) that is told as
 * well, unless another process trains there or it is done; elsewhere nothing is written. held: the
 * caller has the lock. True: told. */
bool folder_refused(const char *dir, bool held, const struct err *why);
/* The folder was made for nothing: it goes if there is nothing in it but its lock, which the caller holds. */
void folder_leave(const char *dir);

#endif

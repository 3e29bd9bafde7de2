/* pool: the threads of one CPU backend. Tasks are numbered; which thread takes which is free. */
#ifndef TRAINER_CPU_POOL_H
#define TRAINER_CPU_POOL_H

#include <stdint.h>

#include "base/err.h"

struct pool;
typedef void pool_fn(void *ctx, int64_t task, int worker); /* worker: 0 .. threads - 1 */

struct pool *pool_new(int threads, struct err *e);
void pool_free(struct pool *p);
int pool_threads(const struct pool *p);
/* Calls fn for each task in 0 .. tasks - 1 and returns when all are done. Not from inside a task,
 * and not from two threads at once. tasks is below 2^32 - 1. */
void pool_run(struct pool *p, int64_t tasks, pool_fn *fn, void *ctx);

#endif

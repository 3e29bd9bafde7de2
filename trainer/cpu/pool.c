/* pool: threads that take numbered tasks, see pool.h. */
#include "trainer/cpu/pool.h"

#include <omp.h>
#include <stdlib.h>

#include "base/mem.h"

struct pool {
    int threads;
};

struct pool *pool_new(int threads, struct err *e)
{
    (void)e;
    struct pool *p = mem_zero(sizeof *p);
    p->threads = threads;
    return p;
}

void pool_free(struct pool *p)
{
    free(p);
}

int pool_threads(const struct pool *p)
{
    return p->threads;
}

void pool_run(struct pool *p, int64_t tasks, pool_fn *fn, void *ctx)
{
    int n = tasks < p->threads ? (int)tasks : p->threads;
#pragma omp parallel num_threads(n)
    {
        omp_set_num_threads(1); /* oneDNN inside a task stays on this thread */
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < tasks; i++)
            fn(ctx, i, omp_get_thread_num());
    }
}

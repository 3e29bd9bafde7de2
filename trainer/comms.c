/* comms: the registry of ways in which ranks talk, and what is asked of every collective, see comm.h.
 *
 * mpi and nccl live in shared objects (trainer/object.h): libassay_mpi.so, and libassay_cuda.so
 * beside its backend.
 */
#include <stdio.h>
#include <string.h>

#include "trainer/comm.h"
#include "trainer/comm_self.h"
#include "trainer/comm_shm.h"
#include "trainer/mpi_object.h"
#include "trainer/object.h"
#include "trainer/tensor.h"

static const struct comm_ops *load_mpi(struct err *e)
{
    const struct mpi_object *(*table)(int abi) = NULL;
    void *symbol = object_symbol("mpi", "assay_mpi", e);
    memcpy(&table, &symbol, sizeof table);
    const struct mpi_object *o = table ? table(BACKEND_ABI) : NULL;
    if (table && !o)
        err_set(e, "libassay_mpi.so was not built for this tool (want ABI %d)", BACKEND_ABI);
    return o ? o->comm : NULL;
}

static const struct comm_ops *load_nccl(struct err *e)
{
    const struct comm_ops *(*table)(int abi) = NULL;
    void *symbol = object_symbol("cuda", "assay_comm", e);
    memcpy(&table, &symbol, sizeof table);
    const struct comm_ops *o = table ? table(BACKEND_ABI) : NULL;
    if (table && !o)
        err_set(e, "libassay_cuda.so was not built for this tool (want ABI %d)", BACKEND_ABI);
    return o;
}

static const struct registered {
    const char *name;
    const struct comm_ops *ops; /* NULL: load() finds them */
    const struct comm_ops *(*load)(struct err *e);
} registry[] = {
    {"self", &comm_self_ops, NULL},
    {"shm", &comm_shm_ops, NULL},
    {"mpi", NULL, load_mpi},
    {"nccl", NULL, load_nccl},
};
enum { REGISTERED = sizeof registry / sizeof *registry };

static const char *choose(const struct comm *c, const struct backend *b)
{
    if (c->world == 1)
        return "self";
    if (strcmp(b->ops->name, "cuda") == 0)
        return "nccl";
    /* Under mpirun too, ranks of one machine are nearest through its memory. */
    return c->meet->local_world == c->world ? "shm" : "mpi";
}

int comm_open(struct comm *c, const char *name, struct backend *b, struct rendezvous *meet,
              struct err *e)
{
    *c = (struct comm){.world = 1, .meet = meet};
    if (meet) {
        c->rank = meet->rank;
        c->world = meet->world;
        c->local = meet->local;
    }
    if (!name || !*name || strcmp(name, "auto") == 0)
        name = choose(c, b);
    char names[256] = "";
    size_t at = 0;
    for (int i = 0; i < REGISTERED; i++) {
        const struct registered *r = &registry[i];
        if (strcmp(r->name, name) == 0) {
            c->ops = r->ops ? r->ops : r->load(e);
            if (c->ops && c->ops->abi != BACKEND_ABI)
                err_set(e, "want ABI %d, the table has %d", BACKEND_ABI, c->ops->abi);
            else if (c->ops && c->ops->open(c, b, e) == 0)
                return 0;
            c->ops = NULL;
            return rendezvous_failed(meet) ? -1 : err_wrap(e, "comm %s", name);
        }
        if (at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", r->name);
    }
    return err_code(e, EXIT_USAGE, "no comm is named \"%s\"; there are: %s", name, names);
}

void comm_close(struct comm *c)
{
    if (c->ops)
        c->ops->close(c);
    *c = (struct comm){0};
}

/* ---- collectives ---- */

static bool refuse(struct comm *c, const struct err *why)
{
    c->fault = *why;
    c->failed = true;
    return false;
}

static bool sums(struct comm *c, const char *what, enum dtype type)
{
    struct err e = {0};
    if (type == DTYPE_F32 || type == DTYPE_BF16 || type == DTYPE_F16)
        return true;
    err_set(&e, "%s: %s is not summed", what, dtype_name(type));
    return refuse(c, &e);
}

static bool parts(struct comm *c, const char *what, const struct tensor *part,
                  const struct tensor *whole)
{
    struct err e = {0};
    int64_t p = tensor_count(part), w = tensor_count(whole);
    const char *a = part->data, *b = whole->data;
    size_t bytes = tensor_bytes(part);
    bool own = a == b + bytes * (size_t)c->rank;
    bool apart = a + bytes <= b || b + tensor_bytes(whole) <= a;
    bool fits = w == p * c->world && part->type == whole->type;
    if (fits && (own || apart))
        return true;
    err_set(&e, "%s: a part of %lld %s%s of a whole of %lld %s for %d ranks", what, (long long)p,
            dtype_name(part->type), fits ? " at another rank's place" : "", (long long)w,
            dtype_name(whole->type), c->world);
    return refuse(c, &e);
}

ticket comm_all_reduce(struct comm *c, struct tensor *t, ticket after)
{
    bool fine = !c->failed && sums(c, "all_reduce", t->type);
    return fine ? c->ops->all_reduce(c, t, after) : 0;
}

ticket comm_reduce_scatter(struct comm *c, struct tensor *part, const struct tensor *whole,
                           ticket after)
{
    bool fine = !c->failed && sums(c, "reduce_scatter", part->type) &&
                parts(c, "reduce_scatter", part, whole);
    return fine ? c->ops->reduce_scatter(c, part, whole, after) : 0;
}

ticket comm_all_gather(struct comm *c, struct tensor *whole, const struct tensor *part,
                       ticket after)
{
    bool fine = !c->failed && parts(c, "all_gather", part, whole);
    return fine ? c->ops->all_gather(c, whole, part, after) : 0;
}

ticket comm_broadcast(struct comm *c, struct tensor *t, int root, ticket after)
{
    struct err e = {0};
    if (c->failed)
        return 0;
    if (root >= 0 && root < c->world)
        return c->ops->broadcast(c, t, root, after);
    err_set(&e, "broadcast from rank %d, there are %d", root, c->world);
    refuse(c, &e);
    return 0;
}

void comm_wait(struct comm *c, ticket t)
{
    c->ops->wait(c, t);
}

int comm_sync(struct comm *c, struct err *e)
{
    return c->ops->sync(c, e);
}

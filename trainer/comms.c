/* comms: the registry of ways in which ranks talk, see comm.h.
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

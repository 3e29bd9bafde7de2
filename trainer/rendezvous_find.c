/* rendezvous_find: who this rank is and where rank 0 listens, by the environment; see rendezvous.h.
 *
 * Rank 0 listens at a known address (MASTER_ADDR and MASTER_PORT; Slurm: the first node of the step
 * and a port made from the job's number), or anywhere and writes down where: into a file, or to the
 * others through MPI.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "trainer/mpi_object.h"
#include "trainer/object.h"
#include "trainer/rendezvous_private.h"

struct names {
    const char *way, *mark, *rank, *world, *local;
};
static const struct names known[] = {
    {"mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"env", "WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    /* Only a step of srun: in a batch script SLURM_PROCID is there as well, and means nobody. */
    {"slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

static const char *get(const char *name)
{
    const char *s = getenv(name);
    return s && *s ? s : NULL;
}

static int number(const char *name, int least, int *out, struct err *e)
{
    const char *s = get(name);
    int64_t v;
    if (!s)
        return err_code(e, EXIT_USAGE, "%s is not set, but the other variables of ranks are", name);
    if (str_i64(str_z(s), &v) || v < least || v > 1 << 20)
        return err_code(e, EXIT_USAGE, "%s=%.40s is no number from %d on", name, s, least);
    *out = (int)v;
    return 0;
}

/* "gpu[03-05,9],login1" -> "gpu03". */
static void first_node(const char *list, char *out, size_t n)
{
    size_t k = strcspn(list, "[,");
    snprintf(out, n, "%.*s", (int)k, list);
    if (list[k] == '[') {
        size_t digits = strcspn(list + k + 1, "-,]");
        snprintf(out + strlen(out), n - strlen(out), "%.*s", (int)digits, list + k + 1);
    }
}

static int slurm_place(struct rendezvous_found *f, struct err *e)
{
    const char *nodes = get("SLURM_STEP_NODELIST"), *job = get("SLURM_JOB_ID");
    const char *step = get("SLURM_STEP_ID");
    int64_t j, s = 0;
    if (!nodes)
        nodes = get("SLURM_NODELIST");
    if (!nodes || !job || str_i64(str_z(job), &j) || (step && str_i64(str_z(step), &s)))
        return err_code(e, EXIT_USAGE,
                        "this is a task of a Slurm step, but SLURM_STEP_NODELIST and SLURM_JOB_ID "
                        "do not say where rank 0 is: set MASTER_ADDR and MASTER_PORT");
    first_node(nodes, f->place[0].host, sizeof f->place[0].host);
    snprintf(f->place[0].port, sizeof f->place[0].port, "%d", (int)(20000 + (j * 31 + s) % 20000));
    f->places = 1;
    f->bind = true;
    return 0;
}

/* As torchrun's: a number, and never the name of a service. */
static int port_is(const char *port, struct err *e)
{
    int64_t v;
    if (str_i64(str_z(port), &v) == 0 && v >= 1 && v <= 65535)
        return 0;
    return err_code(e, EXIT_USAGE, "MASTER_PORT=%.40s is no port: want a number from 1 to 65535",
                    port);
}

static int find_place(struct rendezvous_found *f, struct err *e)
{
    const char *file = get("ASSAY_RENDEZVOUS"), *host = get("MASTER_ADDR");
    const char *port = get("MASTER_PORT");
    bool slurm = strcmp(f->way, "slurm") == 0;
    if (file) {
        f->way = slurm ? "slurm" : "env+file";
        snprintf(f->file, sizeof f->file, "%s", file);
        return 0;
    }
    if (host && port) {
        if (port_is(port, e))
            return -1;
        f->way = slurm ? "slurm" : "env+tcp";
        snprintf(f->place[0].host, sizeof f->place[0].host, "%s", host);
        snprintf(f->place[0].port, sizeof f->place[0].port, "%s", port);
        f->places = 1;
        f->bind = true;
        return 0;
    }
    if (slurm)
        return slurm_place(f, e);
    const char *mpi =
        getenv("ASSAY_LIBDIR")
            ? ", or put libassay_mpi.so where ASSAY_LIBDIR says: it is looked for there alone"
            : ", or build libassay_mpi.so (install Open MPI's headers, then make)";
    return err_code(e, EXIT_USAGE,
                    "rank %d of %d does not know where rank 0 is: set MASTER_ADDR and MASTER_PORT, "
                    "or ASSAY_RENDEZVOUS to a file that all ranks see%s",
                    f->rank, f->world, strcmp(f->way, "mpi") == 0 ? mpi : "");
}

static const struct mpi_object *mpi_load(struct err *e)
{
    const struct mpi_object *(*table)(int abi) = NULL;
    void *symbol = object_symbol("mpi", "assay_mpi", e);
    memcpy(&table, &symbol, sizeof table);
    const struct mpi_object *o = table ? table(BACKEND_ABI) : NULL;
    if (table && !o)
        err_set(e, "libassay_mpi.so was not built for this tool (want ABI %d)", BACKEND_ABI);
    return o;
}

bool rendezvous_told(void)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *s = get(known[i].mark) ? get(known[i].world) : NULL;
        int64_t v;
        if (s)
            return str_i64(str_z(s), &v) || v > 1;
    }
    return get("RANK") && !get("WORLD_SIZE"); /* half told: rendezvous_find refuses it */
}

int rendezvous_find(struct rendezvous_found *f, struct err *e)
{
    const struct names *n = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known && !n; i++)
        if (get(known[i].mark))
            n = &known[i];
    *f = (struct rendezvous_found){.world = 1, .way = "one"};
    if (!n && get("RANK"))
        return err_code(e, EXIT_USAGE,
                        "RANK=%.40s is set, but WORLD_SIZE is not: set WORLD_SIZE to the number of "
                        "ranks, or unset RANK to train with one",
                        get("RANK"));
    if (!n)
        return 0;
    if (number(n->rank, 0, &f->rank, e) || number(n->world, 1, &f->world, e))
        return -1;
    f->local = -1;
    if (get(n->local) && number(n->local, 0, &f->local, e))
        return -1;
    if (f->rank >= f->world)
        return err_code(e, EXIT_USAGE, "%s=%d, but there are %d ranks (%s), counted from 0",
                        n->rank, f->rank, f->world, n->world);
    if (f->world == 1)
        return 0;
    f->way = n->way;
    if (strcmp(n->way, "mpi") != 0 || !object_exists("mpi"))
        return find_place(f, e);
    f->mpi = mpi_load(e);
    int told = f->world;
    if (!f->mpi || f->mpi->start(&f->rank, &f->world, &f->local, &f->local_world, e))
        return -1;
    if (f->world == told)
        return 0;
    return err_set(
        e,
        "mpirun started %d ranks, but MPI counts %d: libassay_mpi.so was built for another "
        "MPI than this mpirun's; build it again where mpirun's headers are",
        told, f->world);
}

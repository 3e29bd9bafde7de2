/* comm_self: one rank. Every collective is over one rank's data: already done. */
#include "trainer/comm_self.h"

static int self_open(struct comm *c, struct backend *b, struct err *e)
{
    if (c->world != 1 || c->rank != 0)
        return err_set(e, "self is for one rank, not rank %d of %d", c->rank, c->world);
    c->backend = b;
    return 0;
}

static void self_close(struct comm *c)
{
    c->backend = NULL;
}

static ticket self_all_reduce(struct comm *c, struct tensor *t, ticket after)
{
    (void)c;
    (void)t;
    return after;
}

/* A device has no copy of its own to offer here, and with one rank none is needed. */
static ticket self_same(struct comm *c, const struct tensor *part, const struct tensor *whole,
                        ticket after)
{
    if (part->data != whole->data && !c->failed) {
        c->failed = true;
        err_set(&c->fault, "with one rank part and whole must be the same storage");
    }
    return after;
}

static ticket self_reduce_scatter(struct comm *c, struct tensor *part, const struct tensor *whole,
                                  ticket after)
{
    return self_same(c, part, whole, after);
}

static ticket self_all_gather(struct comm *c, struct tensor *whole, const struct tensor *part,
                              ticket after)
{
    return self_same(c, part, whole, after);
}

static ticket self_broadcast(struct comm *c, struct tensor *t, int root, ticket after)
{
    (void)c;
    (void)t;
    (void)root;
    return after;
}

static void self_wait(struct comm *c, ticket t)
{
    (void)c;
    (void)t;
}

static int self_sync(struct comm *c, struct err *e)
{
    if (!c->failed)
        return 0;
    *e = c->fault;
    return err_wrap(e, "comm self");
}

const struct comm_ops comm_self_ops = {
    .abi = BACKEND_ABI,
    .name = "self",
    .open = self_open,
    .close = self_close,
    .all_reduce = self_all_reduce,
    .reduce_scatter = self_reduce_scatter,
    .all_gather = self_all_gather,
    .broadcast = self_broadcast,
    .wait = self_wait,
    .sync = self_sync,
};

/* comms: the registry of ways in which ranks talk, see comm.h. */
#include "trainer/comm.h"

#include <stdio.h>
#include <string.h>

#include "trainer/comm_self.h"

static const struct comm_ops *const registry[] = {&comm_self_ops};
enum { REGISTERED = sizeof registry / sizeof *registry };

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
        name = "self";
    char names[256] = "";
    size_t at = 0;
    for (int i = 0; i < REGISTERED; i++) {
        if (strcmp(registry[i]->name, name) == 0) {
            c->ops = registry[i];
            if (c->ops->open(c, b, e) == 0)
                return 0;
            c->ops = NULL;
            return err_wrap(e, "comm %s", name);
        }
        if (at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "",
                                   registry[i]->name);
    }
    return err_code(e, EXIT_USAGE, "no comm is named \"%s\"; there are: %s", name, names);
}

void comm_close(struct comm *c)
{
    if (c->ops)
        c->ops->close(c);
    *c = (struct comm){0};
}

/* rendezvous: opening and closing, see rendezvous.h. Who we are is found in rendezvous_find.c, hands
 * are shaken in rendezvous_meet.c, the calls are in rendezvous_calls.c, the thread that tells that we
 * live in rendezvous_live.c.
 */
#include "trainer/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "trainer/rendezvous_private.h"

#define START   25.0
#define SILENCE 15.0

/* A time that is no time would be found out only when a rank hangs. */
static int limit_of(double given, const char *name, double otherwise, double *out, struct err *e)
{
    const char *s = getenv(name);
    double v;
    *out = given > 0 ? given : otherwise;
    if (given > 0 || !s || !*s)
        return 0;
    if (str_f64(str_z(s), &v) || !(v > 0 && v <= 86400))
        return err_code(e, EXIT_USAGE, "%s=%.40s is no time: want seconds above 0, a day at most",
                        name, s);
    *out = v;
    return 0;
}

int rendezvous_limits(struct err *e)
{
    double v;
    return limit_of(0, "ASSAY_RANK_SILENCE", SILENCE, &v, e) ||
                   limit_of(0, "ASSAY_RANK_START", START, &v, e)
               ? -1
               : 0;
}

/* Names of the hosts, and from which of them are one machine the local numbers if the way did not
 * say them. */
struct who {
    char host[64], machine[64];
};

static void this_machine(struct who *w)
{
    memset(w, 0, sizeof *w);
    gethostname(w->host, sizeof w->host - 1);
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f && fread(w->machine, 1, 36, f) != 36)
        w->machine[0] = 0;
    if (f)
        fclose(f);
}

static int introduce(struct rendezvous *r, struct err *e)
{
    struct rendezvous_impl *m = r->impl;
    struct who me, *all = mem_array((size_t)r->world, sizeof *all);
    this_machine(&me);
    snprintf(r->host, sizeof r->host, "%s", me.host);
    int rc = rendezvous_gather(r, &me, sizeof me, all, e);
    int before = 0, here = 0;
    for (int i = 0; i < r->world && !rc; i++) {
        bool mine = memcmp(&all[i], &me, sizeof me) == 0;
        here += mine;
        before += mine && i < r->rank;
    }
    if (r->local < 0)
        r->local = before;
    r->local_world = here;
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < m->peers && !rc; i++)
        snprintf(m->peer[i].host, sizeof m->peer[i].host, "%s", all[m->peer[i].rank].host);
    pthread_mutex_unlock(&m->lock);
    free(all);
    return rc;
}

static void make_peers(struct rendezvous *r)
{
    struct rendezvous_impl *m = r->impl;
    m->peers = r->rank == 0 ? r->world - 1 : 1;
    m->peer = mem_array((size_t)m->peers, sizeof *m->peer);
    for (int i = 0; i < m->peers; i++) {
        m->peer[i] = (struct peer){.rank = r->rank == 0 ? i + 1 : 0, .data = -1, .life = -1};
        snprintf(m->peer[i].host, sizeof m->peer[i].host, "an unknown host");
    }
}

static int open_impl(struct rendezvous *r, const struct rendezvous_options *o,
                     struct rendezvous_found *f, struct err *e)
{
    struct rendezvous_impl *m = r->impl = mem_zero(sizeof *m);
    const struct rendezvous_seat *seat = o ? o->seat : NULL;
    m->mpi = f->mpi;
    m->launched = seat;
    m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    m->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&m->lock, NULL);
    make_peers(r);
    for (int i = 0; seat && i < m->peers; i++) {
        m->peer[i].life = seat->sockets[2 * i];
        m->peer[i].data = seat->sockets[2 * i + 1];
    }
    double start;
    if (limit_of(o ? o->silence : 0, "ASSAY_RANK_SILENCE", SILENCE, &m->silence, e) ||
        limit_of(o ? o->start : 0, "ASSAY_RANK_START", START, &start, e))
        return -1;
    if (!seat && rendezvous_meet(f, m->peer, m->peers, start, e))
        return -1;
    if (thread_start(&m->thread, rendezvous_live, m, e))
        return -1;
    m->started = true;
    return introduce(r, e);
}

int rendezvous_open(struct rendezvous *r, const struct rendezvous_options *o, struct err *e)
{
    struct rendezvous_found f = {.world = 1, .way = "one", .local_world = 1};
    const struct rendezvous_seat *seat = o ? o->seat : NULL;
    *r = (struct rendezvous){0};
    if (seat)
        f = (struct rendezvous_found){
            .rank = seat->rank, .world = seat->world, .local = seat->rank, .way = "fork"};
    else if (rendezvous_find(&f, e))
        return -1;
    *r = (struct rendezvous){.rank = f.rank, .world = f.world, .local = f.local, .way = f.way};
    gethostname(r->host, sizeof r->host - 1);
    r->local_world = 1;
    int rc = 0;
    if (r->world == 1)
        r->local = r->local < 0 ? 0 : r->local;
    else
        rc = open_impl(r, o, &f, e);
    if (seat)
        free(seat->sockets);
    if (rc == 0)
        return 0;
    if (!rendezvous_failed(r))
        err_wrap(e, "rank %d on %s", r->rank, r->host);
    rendezvous_close(r);
    return -1;
}

void rendezvous_close(struct rendezvous *r)
{
    struct rendezvous_impl *m = r->impl;
    if (m) {
        if (m->started) {
            rendezvous_poke(m->stop);
            pthread_join(m->thread, NULL);
        }
        for (int i = 0; i < m->peers; i++) {
            if (m->peer[i].life >= 0)
                close(m->peer[i].life);
            if (m->peer[i].data >= 0)
                close(m->peer[i].data);
        }
        close(m->wake);
        close(m->stop);
        if (m->mpi && !atomic_load(&m->failed))
            m->mpi->stop();
        pthread_mutex_destroy(&m->lock);
        free(m->peer);
        free(m);
    }
    *r = (struct rendezvous){0};
}

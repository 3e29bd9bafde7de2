/* rendezvous_private: what the files of rendezvous share: rendezvous.c (opening), rendezvous_find.c
 * (who are we, where is rank 0), rendezvous_meet.c (hands are shaken), rendezvous_place.c (addresses), rendezvous_calls.c and
 * rendezvous_live.c (signs of life). Nobody else includes it.
 */
#ifndef TRAINER_RENDEZVOUS_PRIVATE_H
#define TRAINER_RENDEZVOUS_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "trainer/mpi_object.h"
#include "trainer/rendezvous.h"

/* The other end: of rank 0 every other rank, of those rank 0. */
struct peer {
    int rank;
    int data, life; /* sockets; -1: not there */
    char host[64];
    double heard; /* clock of the last sign of life */
    bool left;    /* in order */
};
struct rendezvous_impl {
    struct peer *peer;
    int peers;
    uint32_t calls;
    double silence;
    pthread_t thread;
    bool started;
    bool launched;      /* by our own launcher, which tells of a rank that is killed */
    int wake, stop;     /* eventfds: the caller shall look up; the thread shall end */
    atomic_bool failed; /* set behind fault, which then stays */
    atomic_bool alone;  /* rank 0 is gone: nobody passes on what we say */
    pthread_mutex_t lock;
    struct err fault;
    int guilty;                                     /* rank that the fault came from */
    void (*last)(void *ctx, const struct err *why); /* NULL: none; under the lock */
    void *last_ctx;
    const struct mpi_object *mpi;
};

/* Who a rank is and how it reaches rank 0. */
enum { PLACES = 16 };
struct rendezvous_place {
    char host[128], port[16];
};
struct rendezvous_found {
    int rank, world, local, local_world; /* local -1, local_world 0: not said */
    const char *way;
    char file[400]; /* env+file: where the address stands */
    struct rendezvous_place place[PLACES];
    int places;
    char nonce[33];
    const struct mpi_object *mpi; /* NULL: none, or not needed */
    bool bind; /* rank 0 listens at place[0]; else anywhere, and tells the others through the way */
};
/* By the environment; world 1: nobody else. */
int rendezvous_find(struct rendezvous_found *f, struct err *e);
/* First words of a socket and of the file. */
#define RENDEZVOUS_HELLO "assay-rendezvous 1"
/* Rank 0: a listening socket; f then says where it is to be found, and so does its file. */
int rendezvous_listen(struct rendezvous_found *f, struct err *e);
/* A connected socket, or -1. */
int rendezvous_connect(const struct rendezvous_place *p, double until);
/* What the file says now; 0 places when it is not there yet or is torn. */
void rendezvous_read_file(struct rendezvous_found *f);
/* Has the host no address here? e says so. Asked when nobody answered: a name may come late. */
bool rendezvous_unknown(const struct rendezvous_place *p, struct err *e);
/* Fills data and life of all peers, which are allocated with their ranks set. */
int rendezvous_meet(struct rendezvous_found *f, struct peer *peer, int peers, double limit,
                    struct err *e);

/* The failure: the first is kept, and wakes who waits in a call. */
void rendezvous_fail(struct rendezvous_impl *m, int guilty, const struct err *why);
void rendezvous_fail_peer(struct rendezvous_impl *m, const struct peer *p, const char *what);
void rendezvous_poke(int eventfd);
/* The thread; its argument is the struct rendezvous_impl. Ends when `stop` is poked. */
void *rendezvous_live(void *impl);

#endif

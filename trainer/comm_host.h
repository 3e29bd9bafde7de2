/* comm_host: what comms over host memory share: a queue of collectives that one thread works off.
 *
 * A ticket is the number of a collective, from 1. The CPU backend computes in the calling thread, so
 * what was computed before a call is ready when it is made, and "after" needs no waiting.
 * A transport fills a table of blocking calls, which run in the comm's thread one at a time; sizes and
 * types have been checked.
 */
#ifndef TRAINER_COMM_HOST_H
#define TRAINER_COMM_HOST_H

#include "trainer/comm.h"

/* What a rank is about to do; the transport compares it over ranks before it moves anything. */
struct comm_note {
    int64_t number, what, type, count, root;
};
enum { COMM_ALL_REDUCE, COMM_REDUCE_SCATTER, COMM_ALL_GATHER, COMM_BROADCAST };

struct comm_link {
    /* n elements: of t; of part (whole has world times as many). part may be its place in whole. */
    int (*all_reduce)(struct comm *c, void *t, int64_t n, enum dtype type, struct err *e);
    int (*reduce_scatter)(struct comm *c, void *part, const void *whole, int64_t n, enum dtype type,
                          struct err *e);
    int (*all_gather)(struct comm *c, void *whole, const void *part, int64_t n, enum dtype type,
                      struct err *e);
    int (*broadcast)(struct comm *c, void *t, int64_t n, enum dtype type, int root, struct err *e);
    /* Everybody's notes, in rank order. */
    int (*notes)(struct comm *c, const struct comm_note *mine, struct comm_note *all,
                 struct err *e);
};

/* Starts and ends the queue; link's own things are in c->impl. */
struct comm_host;
int comm_host_open(struct comm *c, struct comm_host **h, const struct comm_link *link,
                   struct err *e);
void comm_host_close(struct comm_host *h);

/* The rows of comm_ops, for a transport that keeps its comm_host first in its impl. */
ticket comm_host_all_reduce(struct comm *c, struct tensor *t, ticket after);
ticket comm_host_reduce_scatter(struct comm *c, struct tensor *part, const struct tensor *whole,
                                ticket after);
ticket comm_host_all_gather(struct comm *c, struct tensor *whole, const struct tensor *part,
                            ticket after);
ticket comm_host_broadcast(struct comm *c, struct tensor *t, int root, ticket after);
void comm_host_wait(struct comm *c, ticket t);
int comm_host_sync(struct comm *c, struct err *e);

/* out[n] = the sum of world vectors in rank order, rounded once; vector r starts at in + r * stride
 * elements. out may be one of them. */
void comm_host_sum(enum dtype type, void *out, const void *in, int64_t stride, int world,
                   int64_t n);

#endif

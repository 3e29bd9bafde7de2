/* comm_self: the table of the one-rank comm, for the registry. */
#ifndef TRAINER_COMM_SELF_H
#define TRAINER_COMM_SELF_H

#include "trainer/comm.h"

extern const struct comm_ops comm_self_ops;

#endif

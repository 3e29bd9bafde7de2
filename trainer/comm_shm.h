/* comm_shm: the table of the comm of CPU ranks on one machine, for the registry. */
#ifndef TRAINER_COMM_SHM_H
#define TRAINER_COMM_SHM_H

#include "trainer/comm.h"

extern const struct comm_ops comm_shm_ops;

#endif

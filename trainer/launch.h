/* launch: starts N ranks of this program on this machine and watches over them.
 *
 * Ranks are forked, so this must come before any thread (backends, OpenMP, prefetching). They are
 * joined by socket pairs: no address, no port. SIGTERM, SIGUSR1 and SIGINT of the launcher go to rank
 * 0, which agrees with the others. When a rank ends badly the others end by themselves (see
 * rendezvous.h); who does not is killed. When the launcher dies its ranks get SIGTERM.
 */
#ifndef TRAINER_LAUNCH_H
#define TRAINER_LAUNCH_H

#include "trainer/rendezvous.h"

/* 1 in each rank, with its seat; 0 in the launcher when all ranks have ended, *status an enum
 * exit_code: that of the first that ended badly, whose sentence its rank has printed; -1 and e when
 * they could not be started or one was killed. */
int launch_ranks(int ranks, struct rendezvous_seat *seat, int *status, struct err *e);

#endif

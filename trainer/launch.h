/* launch: starts N ranks of this program on this machine and watches over them.
 *
 * Ranks are forked, so this must come before any thread (backends, OpenMP, prefetching). They are
 * joined by socket pairs: no address, no port. SIGTERM, SIGUSR1 and SIGINT of the launcher go to rank
 * 0, which agrees with the others. When a rank ends badly the others end by themselves (see
 * rendezvous.h); who does not is killed. When the launcher dies its ranks get SIGTERM.
 */
#ifndef TRAINER_LAUNCH_H
#define TRAINER_LAUNCH_H

#include <stdint.h>

#include "base/str.h"
#include "formats/run.h"
#include "trainer/rendezvous.h"

/* 1 in each rank, with its seat; 0 in the launcher when all ranks have ended, *status an enum
 * exit_code: that of the first that ended badly, whose sentence its rank has printed; -1 and e when
 * they could not be started, one was killed, or rank 0 did not end by itself. */
int launch_ranks(int ranks, struct rendezvous_seat *seat, int *status, struct err *e);

/* The same for a command. When the environment says that this is a rank already, an option is refused
 * and the rest not asked. 1: go on as a rank, or alone (*launched says which); 0: *status; -1. */
struct launch_wish {
    int64_t option, usual;           /* ranks by the command line, by the run file; 0: not said */
    const struct hardware *hardware; /* neither: so many as its devices that open here; NULL: one */
    struct str backend;              /* auto, cuda; cpu: one */
};
int launch_command(const struct launch_wish *w, struct rendezvous_seat *seat, bool *launched,
                   int *status, struct err *e);
/* How many of `most` (at most 255) CUDA devices open, 0: none. Before this process opens one. */
int64_t launch_devices(int64_t most);
/* What interrupts: for a launched rank but 0 the terminal's Ctrl-C means nothing, rank 0 tells it. */
void launch_interrupts(const struct rendezvous_seat *seat); /* NULL: not launched */

#endif

/* thread: threads, and the flag that SIGINT and SIGTERM raise. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"

int thread_start(pthread_t *t, void *(*fn)(void *), void *arg, struct err *e);
int thread_cpus(void); /* usable by this process, from the affinity mask */

/* Installs handlers for SIGINT, SIGTERM and SIGUSR1 that only raise a flag; a second SIGINT kills.
 * Long loops ask interrupt_raised() once a step, save, and end with EXIT_INCOMPLETE. */
void interrupt_install(void);
bool interrupt_raised(void);
void interrupt_raise(void); /* as if a signal came; tests */

#endif

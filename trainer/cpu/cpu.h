/* cpu: the CPU backend's one door to the rest of the trainer. */
#ifndef TRAINER_CPU_CPU_H
#define TRAINER_CPU_CPU_H

#include "trainer/backend.h"

extern const struct backend_ops cpu_backend_ops;

#endif

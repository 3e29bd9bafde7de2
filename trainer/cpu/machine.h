/* machine: what this computer is, for the CPU backend. */
#ifndef TRAINER_CPU_MACHINE_H
#define TRAINER_CPU_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct vec;

/* "AMD EPYC 9R14": the model name of /proc/cpuinfo, or the architecture. */
void cpu_model(char *out, size_t n);
/* Bytes this process may still take: what the kernel calls available, or what the memory limit of
 * its control group leaves if that is less; -1 unknown. */
int64_t machine_memory_free(void);
/* The vector kernels: the highest level this CPU has. $ASSAY_CPU_LEVEL (v2, v3, v4, generic) asks
 * for a lower one, for tests and to tell a kernel's bug from a compiler's. */
const struct vec *cpu_vec(struct err *e);

#endif

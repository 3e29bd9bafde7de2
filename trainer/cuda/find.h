/* find: NVIDIA's libraries at run time, wherever a machine has them: below a folder that the
 * environment names, where the loader looks, in /usr/local/cuda, among pip's nvidia packages. */
#ifndef TRAINER_CUDA_FIND_H
#define TRAINER_CUDA_FIND_H

#include <stddef.h>

/* homes: names of variables, NULL at the end; the first that leads to the library wins over all else.
 * A handle for dlsym; NULL and the loader's sentence. */
void *find_library(const char *name, const char *const *homes, char *why, size_t n);

#endif

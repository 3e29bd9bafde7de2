/* bugs: launchers of the emulator's own test kernels, see bugs.cu. */
#ifndef TESTS_CUDAEMU_BUGS_HPP
#define TESTS_CUDAEMU_BUGS_HPP

#include <cuda_runtime_api.h>

#include <cstdint>

bool bug_launch(const char *name, float *out, int bug, cudaStream_t s);
void order_launch(int *order, int *count, cudaStream_t s);
void collectives_launch(int *out, cudaStream_t s);
void product_bf16_launch(float *d, const void *a, const void *b, cudaStream_t s);
void product_f16_launch(float *d, const void *a, const void *b, cudaStream_t s);
void turn_launch(uint16_t *out, const uint16_t *in, cudaStream_t s);
void fill_launch(float *out, float v, cudaStream_t s);

#endif

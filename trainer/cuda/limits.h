/* limits: what the CUDA kernels take at most. Read without a device too, so nothing of CUDA is here. */
#ifndef TRAINER_CUDA_LIMITS_H
#define TRAINER_CUDA_LIMITS_H

enum { CUDA_NORM_WIDTH = 6144 }; /* most columns of a row */
enum { CUDA_HEAD_SIZE = 256 };   /* the largest head */

#endif

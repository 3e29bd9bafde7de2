/* scaler: dynamic scaling of the loss for fp16, whose gradients vanish below 6e-8 and overflow at
 * 65504 (Micikevicius et al., arXiv 1710.03740).
 *
 * Gradients are made `scale` times larger and divided again in the update. When they are not finite
 * the step is left out and the scale halved; after many good steps it is doubled. The state is in
 * the checkpoint, so a run that goes on takes the same steps. Plain numbers: no device, no clock.
 */
#ifndef TRAINER_SCALER_H
#define TRAINER_SCALER_H

#include <stdbool.h>
#include <stdint.h>

#define SCALER_FIRST 65536.0 /* 2^16 */
#define SCALER_LEAST 1.0
#define SCALER_MOST  16777216.0 /* 2^24: the sum of squares of larger ones leaves f32 */

struct scaler {
    double scale;
    int64_t good;      /* steps since the scale changed */
    int64_t overflows; /* steps left out */
};
void scaler_start(struct scaler *s);
enum scaler_verdict {
    SCALER_GOOD,
    SCALER_OVERFLOW, /* the step is left out, the scale halved */
    SCALER_BROKEN,   /* not finite at the least scale: it is not the scale's doing */
};
/* Behind a step: were its gradients finite. The scale doubles behind grow_after good ones. */
enum scaler_verdict scaler_take(struct scaler *s, bool finite, int64_t grow_after);

#endif

/* model_kinds: the kinds that eval/models.c lists. */
#ifndef EVAL_MODEL_KINDS_H
#define EVAL_MODEL_KINDS_H

#include "eval/model.h"

extern const struct model_ops model_gpt2, model_http, model_replay;

#endif

/* complete: log-probabilities of continuations from a server, by OpenAI's legacy completions call
 * (POST BASE/completions with echo and logprobs; vLLM, our own `assay serve`). Pure: no connection.
 *
 * One request asks for the prompt alone and for the prompt with each choice. A choice's tokens are
 * those behind as many as the prompt alone has, as lm-evaluation-harness cuts them ("joined" in
 * eval/model.h); white space at the prompt's end goes to the choice. One token is generated and
 * left out, because many servers refuse max_tokens 0.
 *
 * A server that ignores echo, gives no log-probabilities or other ones than were asked for is an
 * error of the whole run: scored as it comes, it would look like chance.
 */
#ifndef EVAL_COMPLETE_H
#define EVAL_COMPLETE_H

#include "eval/chat.h"

/* Why a request can't be asked of this server at all; NULL: it can. Static text. */
const char *complete_refuses(const struct chat_target *t, const struct request *q);
void complete_body(const struct chat_target *t, const struct request *q, struct buf *out);
/* CHAT_ANSWER: choice_logprob, choice_tokens, choice_greedy are there, in the arena. */
void complete_read(const struct chat_target *t, const struct request *q, const struct http_reply *h,
                   struct chat_reply *out, struct arena *a);

#endif

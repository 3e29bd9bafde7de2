/* servers: the registry of transports; a library that may be missing is an #ifdef here and a
 * sentence. */
#include "eval/serve.h"

#ifdef HAVE_MICROHTTPD
extern const struct serve_transport serve_http;
#endif

static const struct serve_transport *const transports[] = {
#ifdef HAVE_MICROHTTPD
    &serve_http,
#endif
    NULL,
};

const struct serve_transport *serve_transport(struct err *e)
{
    if (!transports[0])
        err_set(e, "this build can't serve: it was made without libmicrohttpd; install "
                   "libmicrohttpd-dev and run make again");
    return transports[0];
}

/* mlflow: calls to an MLflow server, for export_mlflow.c. Its REST API 2.0 and its artefact proxy.
 *
 * A request that did not get in (no connection, 429, 503) is sent again after a wait; one that may
 * have been taken is left to the next export, with EXIT_INCOMPLETE.
 */
#ifndef PIPELINES_MLFLOW_H
#define PIPELINES_MLFLOW_H

#include "base/clock.h"
#include "base/http.h"
#include "base/json.h"
#include "pipelines/export.h"

struct mlflow_server {
    const struct mlflow_job *j;
    struct http *http;
    struct clock *clock;
    const char *headers[4];
    bool secret;
    struct arena arena;
};
/* Who we are: from the environment, as MLflow's own clients take it; never from options, never logged. */
void mlflow_identify(struct mlflow_server *s);
/* POST of body (taken) to /api/2.0/mlflow/PATH, or GET without one. *reply may be NULL. A 404 of a GET is
 * *reply = NULL and no error. */
int mlflow_call(struct mlflow_server *s, const char *path, struct json *body, struct json **reply,
                struct err *e);
/* The file `path` as `name` into a run's place of artefacts; said and left where that is no door of the server. */
int mlflow_put(struct mlflow_server *s, const char *artifacts, const char *name, const char *path,
               struct err *e);
/* For a query of a URL. */
const char *mlflow_escaped(struct arena *a, struct str s);

#endif

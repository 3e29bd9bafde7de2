/* task_line: what the tasks say in common: the line that is printed and kept (fact "line"), and prompts
 * that did not fit. See eval/tasks.h.
 */
#include "base/buf.h"
#include "eval/tasks.h"

void eval_lost_heads(struct stage *st, struct json *id, int64_t lost, int64_t of, int64_t context)
{
    struct buf b = {0};
    stage_fact(st, "lost_heads", json_of_int(lost));
    if (!lost)
        return;
    buf_printf(&b, "%lld of %lld prompts, to fit a context of %lld", (long long)lost, (long long)of,
               (long long)context);
    json_put(id, "lost_heads", json_of_str(buf_str(&b)));
    buf_release(&b);
}

void eval_line(struct stage *st, const struct buf *line)
{
    stage_fact(st, "line", json_of_str(buf_str(line)));
}

void eval_line_again(const char *out, FILE *to)
{
    struct err unread; /* then there is nothing to say */
    struct json *m = manifest_read(out, &unread);
    struct str line = json_str(json_get(json_get(m, "facts"), "line"));
    if (line.n)
        fprintf(to, "%.*s\n", STR_ARG(line));
    json_free(m);
}

/* journal: see eval/journal.h. */
#include "eval/journal.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"

const char *journal_path(struct arena *a, const char *out, const char *key)
{
    struct strs names = {0};
    struct err unread;
    const char *path = arena_printf(a, "%s.%.12s.journal", out, key), *other = NULL;
    const char *stem = arena_printf(a, "%s.", path_base(out));
    long long others = 0;
    if (file_list(path_dir(a, out), &names, a, &unread))
        return path; /* opening it will say why */
    for (size_t i = 0; i < names.n; i++)
        if (str_starts(names.v[i], stem) && str_ends(names.v[i], ".journal") &&
            names.v[i].n == strlen(stem) + 12 + sizeof ".journal" - 1 &&
            !str_eqz(names.v[i], path_base(path))) {
            other = str_dup(a, names.v[i]);
            others++;
        }
    if (others)
        log_info("%s%s beside %s holds answers of another model, items or options and is not read: "
                 "delete it if it is not wanted",
                 other, others > 1 ? arena_printf(a, " (one of %lld such files)", others) : "",
                 out);
    return path;
}

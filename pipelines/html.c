/* html: text and tables for the report, see report.h. */
#include <string.h>

#include "base/json.h"
#include "pipelines/report.h"

void html_text(struct buf *out, struct str s)
{
    struct buf mended = {0};
    if (utf8_valid(s) != s.n) {
        json_mend(s, &mended);
        s = buf_str(&mended);
    }
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '&')
            buf_addz(out, "&amp;");
        else if (c == '<')
            buf_addz(out, "&lt;");
        else if (c == '>')
            buf_addz(out, "&gt;");
        else if (c == '"')
            buf_addz(out, "&quot;");
        else if (c < 0x20 && c != '\n' && c != '\t') /* not allowed in HTML */
            buf_addz(out, "\xef\xbf\xbd");
        else
            buf_addc(out, (char)c);
    }
    buf_release(&mended);
}

void html_z(struct buf *out, const char *z)
{
    html_text(out, str_z(z));
}

void html_table(struct buf *out, const char *caption, const char *const *cell, size_t rows,
                size_t columns, const char *align)
{
    size_t na = align ? strlen(align) : 0;
    buf_addz(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    html_z(out, caption);
    buf_addz(out, "\"><table><caption><span>");
    html_z(out, caption);
    buf_addz(out, "</span></caption><thead>");
    for (size_t r = 0; r < rows; r++) {
        buf_addz(out, r == 1 ? "</thead><tbody><tr>" : "<tr>");
        for (size_t c = 0; c < columns; c++) {
            const char *number = c < na && align[c] == 'r' ? " class=\"n\"" : "";
            bool head = r == 0 || c == 0;
            buf_printf(out, "<%s%s%s>", head ? "th" : "td",
                       r == 0   ? " scope=\"col\""
                       : c == 0 ? " scope=\"row\""
                                : "",
                       number);
            html_z(out, cell[r * columns + c] ? cell[r * columns + c] : "");
            buf_addz(out, head ? "</th>" : "</td>");
        }
        buf_addz(out, "</tr>\n");
    }
    buf_addz(out, rows > 1 ? "</tbody></table></div>\n" : "</thead></table></div>\n");
}

/* ifeval_language: see scoring/ifeval_language.h. Function words are common ones of each language,
 * own choice. */
#include "scoring/ifeval_language.h"

#include <string.h>

#include "base/lower.h"

enum script {
    LATIN,
    CYRILLIC,
    ARABIC,
    DEVANAGARI,
    GURMUKHI,
    KANNADA,
    GUJARATI,
    TELUGU,
    TAMIL,
    THAI,
    BENGALI,
    MALAYALAM,
    HANGUL,
    HEBREW,
    GREEK,
    KANA,
    HAN,
    SCRIPTS,
};
static const struct {
    uint32_t first, last;
    enum script script;
} blocks[] = {
    {'A', 'Z', LATIN},          {'a', 'z', LATIN},         {0xC0, 0x24F, LATIN},
    {0x370, 0x3FF, GREEK},      {0x400, 0x52F, CYRILLIC},  {0x590, 0x5FF, HEBREW},
    {0x600, 0x6FF, ARABIC},     {0x750, 0x77F, ARABIC},    {0x900, 0x963, DEVANAGARI},
    {0x966, 0x97F, DEVANAGARI}, {0x980, 0x9FF, BENGALI},   {0xA00, 0xA7F, GURMUKHI},
    {0xA80, 0xAFF, GUJARATI},   {0xB80, 0xBFF, TAMIL},     {0xC00, 0xC7F, TELUGU},
    {0xC80, 0xCFF, KANNADA},    {0xD00, 0xD7F, MALAYALAM}, {0xE00, 0xE7F, THAI},
    {0x1E00, 0x1EFF, LATIN},    {0x1100, 0x11FF, HANGUL},  {0x3040, 0x30FF, KANA},
    {0x3130, 0x318F, HANGUL},   {0x3400, 0x4DBF, HAN},     {0x4E00, 0x9FFF, HAN},
    {0xAC00, 0xD7A3, HANGUL},
};

/* words: function words in lower case, with blanks around each. marks: letters that hardly another
 * language of its script has; each counts as half a word. */
static const struct language {
    const char *code;
    enum script script;
    const char *words, *marks;
} languages[] = {
    {"en", LATIN,
     " the of and to in is that it for was with as on be at by this have from or are not but an "
     "they "
     "which you we his her all can there been if more when will would who so no their what my i "
     "your "
     "me our how do about has had were one could should than then them its into out up us am ",
     ""},
    {"es", LATIN,
     " el la de que y en los del se las por un para con una su al lo como m\xC3\xA1s pero sus le "
     "ya "
     "este s\xC3\xAD porque esta cuando muy sin sobre tambi\xC3\xA9n me hasta hay donde es son ",
     "\xC3\xB1\xC2\xBF\xC2\xA1"},
    {"pt", LATIN,
     " o a de que e do da em um para com n\xC3\xA3o uma os no se na por mais as dos como mas ao "
     "ele "
     "das seu sua ou quando muito nos j\xC3\xA1 eu tamb\xC3\xA9m pelo pela at\xC3\xA9 isso ela "
     "\xC3\xA9 "
     "s\xC3\xA3o ",
     "\xC3\xA3\xC3\xB5"},
    {"it", LATIN,
     " il di che e la per un non in sono una con si da come ma lo le alla della del ho anche al "
     "nel "
     "pi\xC3\xB9 gli questo se ci mi quando delle dei era perch\xC3\xA9 essere \xC3\xA8 i ",
     "\xC3\xAC\xC3\xB2"},
    {"fr", LATIN,
     " le de la et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il "
     "sont "
     "avec son nous vous aux mais ou elle cette ont leur je il ",
     "\xC3\xA7\xC5\x93\xC3\xAB\xC3\xBB\xC3\xAE"},
    {"de", LATIN,
     " der die und in den von zu das mit sich des auf f\xC3\xBCr ist im dem nicht ein eine als "
     "auch es "
     "an werden aus er hat dass sie nach wird bei einer um am sind noch wie einem \xC3\xBC"
     "ber ich ",
     "\xC3\x9F"},
    {"nl", LATIN,
     " de het een van en in is dat op te zijn met voor niet aan er om ook als dan maar bij uit nog "
     "naar "
     "heeft wordt deze door wij ik je ",
     ""},
    {"sv", LATIN,
     " och att det som en p\xC3\xA5 \xC3\xA4r av f\xC3\xB6r med till den har de inte om ett han "
     "men var "
     "jag sig fr\xC3\xA5n vi s\xC3\xA5 kan ",
     "\xC3\xA5"},
    {"pl", LATIN,
     " i w na z do nie si\xC4\x99 jest to \xC5\xBC"
     "e o jak za od po ale co jego przez tak dla czy tym "
     "by\xC5\x82 oraz ",
     "\xC5\x82\xC4\x85\xC4\x99\xC5\xBC\xC5\x9B\xC5\xBA\xC4\x87\xC5\x84"},
    {"fi", LATIN,
     " ja on ei ett\xC3\xA4 se oli h\xC3\xA4n mutta ovat kun niin my\xC3\xB6s kuin jos tai sen "
     "joka "
     "mit\xC3\xA4 min\xC3\xA4 olla t\xC3\xA4m\xC3\xA4 voi en ole h\xC3\xA4nen niit\xC3\xA4 "
     "sek\xC3\xA4 ",
     ""},
    {"sw", LATIN,
     " na ya wa kwa ni katika la za kuwa cha hii hiyo kama pia lakini yake watu au huu ili vya "
     "baada "
     "sana yao wao hivyo mimi wewe ",
     ""},
    {"vi", LATIN,
     " v\xC3\xA0 l\xC3\xA0 c\xE1\xBB\xA7"
     "a c\xC3\xB3 c\xC3\xA1"
     "c cho trong nh\xE1\xBB\xAFng kh\xC3\xB4ng "
     "v\xE1\xBB\x9Bi \xC4\x91\xC6\xB0\xE1\xBB\xA3"
     "c m\xE1\xBB\x99t t\xC3\xB4i n\xC3\xA0y ",
     "\xC4\x91\xC6\xA1\xC6\xB0\xE1\xBA\xA1\xE1\xBA\xA3\xE1\xBA\xA5\xE1\xBA\xBF\xE1\xBB\x87\xE1\xBB"
     "\x91"
     "\xE1\xBB\x99\xE1\xBB\xA3\xE1\xBB\x9D\xE1\xBB\xAF\xE1\xBB\xAB"},
    {"id", LATIN,
     " yang dan di untuk dengan ini dari itu pada adalah dalam tidak akan ke oleh saya juga ada "
     "anda "
     "atau bisa kami ",
     ""},
    {"tr", LATIN,
     " ve bir bu i\xC3\xA7in da de ile \xC3\xA7ok olarak daha gibi ne ben sen kadar olan en ama "
     "var ",
     "\xC4\xB1\xC4\x9F\xC5\x9F"},
    {"ru", CYRILLIC,
     " \xD0\xB8 \xD0\xB2 \xD0\xBD\xD0\xB5 \xD0\xBD\xD0\xB0 \xD1\x87\xD1\x82\xD0\xBE "
     "\xD1\x8F \xD1\x81 \xD0\xBA\xD0\xB0\xD0\xBA \xD1\x8D\xD1\x82\xD0\xBE ",
     "\xD1\x8B\xD1\x8D\xD1\x91"},
    {"uk", CYRILLIC, " \xD1\x96 \xD1\x82\xD0\xB0 \xD1\x89\xD0\xBE \xD1\x94 \xD1\x8F\xD0\xBA ",
     "\xD1\x96\xD1\x97\xD1\x94\xD2\x91"},
    {"bg", CYRILLIC,
     " \xD0\xB8 \xD0\xBD\xD0\xB0 \xD0\xB4\xD0\xB0 \xD0\xB5 \xD0\xB7\xD0\xB0 \xD0\xBE\xD1\x82 "
     "\xD1\x81\xD0\xB5 \xD1\x81\xD1\x8A\xD1\x81 \xD1\x81\xD0\xB0 ",
     "\xD1\x8A"},
    {"ar", ARABIC,
     " \xD9\x81\xD9\x8A \xD9\x85\xD9\x86 \xD8\xB9\xD9\x84\xD9\x89 \xD8\xA5\xD9\x84\xD9\x89 ",
     "\xD8\xA9\xD9\x8A\xD9\x83\xD9\x89"},
    {"fa", ARABIC,
     " \xD9\x88 \xD8\xAF\xD8\xB1 \xD8\xA8\xD9\x87 \xD8\xA7\xD8\xB2 \xDA\xA9\xD9\x87 "
     "\xD8\xB1\xD8\xA7 "
     "\xD8\xA7\xDB\x8C\xD9\x86 \xD8\xA8\xD8\xA7 \xD8\xA7\xD8\xB3\xD8\xAA ",
     "\xDA\x98"},
    {"ur", ARABIC,
     " \xDA\xA9\xDB\x92 \xDA\xA9\xDB\x8C \xD9\x85\xDB\x8C\xDA\xBA \xDB\x81\xDB\x92 "
     "\xD8\xB3\xDB\x92 "
     "\xD8\xA7\xD9\x88\xD8\xB1 \xDA\xA9\xD8\xA7 ",
     "\xD9\xB9\xDA\x88\xDA\x91\xDB\x92\xDB\x81\xDA\xBA"},
    {"hi", DEVANAGARI,
     " \xE0\xA4\xB9\xE0\xA5\x88 \xE0\xA4\xAE\xE0\xA5\x87\xE0\xA4\x82 \xE0\xA4\x95\xE0\xA5\x80 "
     "\xE0\xA4\x95\xE0\xA5\x87 \xE0\xA4\xB8\xE0\xA5\x87 \xE0\xA4\x94\xE0\xA4\xB0 "
     "\xE0\xA4\x95\xE0\xA4\xBE \xE0\xA4\x95\xE0\xA5\x8B \xE0\xA4\xB9\xE0\xA5\x88\xE0\xA4\x82 ",
     ""},
    {"mr", DEVANAGARI,
     " \xE0\xA4\x86\xE0\xA4\xB9\xE0\xA5\x87 \xE0\xA4\x86\xE0\xA4\xA3\xE0\xA4\xBF "
     "\xE0\xA4\xAF\xE0\xA4\xBE \xE0\xA4\xB9\xE0\xA5\x87 \xE0\xA4\xB5 \xE0\xA4\xA4\xE0\xA5\x87 "
     "\xE0\xA4\x86\xE0\xA4\xB9\xE0\xA5\x87\xE0\xA4\xA4 ",
     "\xE0\xA4\xB3"},
    {"ne", DEVANAGARI,
     " \xE0\xA4\x9B \xE0\xA4\xB0 \xE0\xA4\xAE\xE0\xA4\xBE \xE0\xA4\xAF\xE0\xA5\x8B "
     "\xE0\xA4\xB9\xE0\xA5\x8B \xE0\xA4\xB2\xE0\xA5\x87 \xE0\xA4\x9B\xE0\xA4\xA8\xE0\xA5\x8D ",
     ""},
    {"pa", GURMUKHI, "", ""},
    {"kn", KANNADA, "", ""},
    {"gu", GUJARATI, "", ""},
    {"te", TELUGU, "", ""},
    {"ta", TAMIL, "", ""},
    {"th", THAI, "", ""},
    {"bn", BENGALI, "", ""},
    {"ml", MALAYALAM, "", ""},
    {"ko", HANGUL, "", ""},
    {"he", HEBREW, "", ""},
    {"el", GREEK, "", ""},
    {"ja", KANA, "", ""},
    {"zh", HAN, "", ""},
};
enum { LANGUAGES = sizeof languages / sizeof languages[0], WORD = 32 };

static int script_of(uint32_t c)
{
    if (c == 0xD7 || c == 0xF7)
        return SCRIPTS;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (c >= blocks[i].first && c <= blocks[i].last)
            return blocks[i].script;
    return SCRIPTS;
}

static bool has_word(const char *list, const char *word, size_t n)
{
    char key[WORD + 3] = " ";
    if (!n || n > WORD)
        return false;
    memcpy(key + 1, word, n);
    key[n + 1] = ' ';
    key[n + 2] = 0;
    return strstr(list, key) != NULL;
}

/* Counts function words (2 points) and own letters (1) of every language of the script. */
static void points(struct str text, enum script script, int64_t *score)
{
    char word[WORD + 8];
    size_t n = 0;
    for (size_t at = 0; at <= text.n;) {
        char c[5] = "";
        size_t k = 0;
        if (at < text.n) {
            uint32_t cp = lower_of(utf8_next(text, &at));
            k = script_of(cp) < SCRIPTS ? (size_t)utf8_put(c, cp) : 0;
        } else {
            at++;
        }
        for (int i = 0; i < LANGUAGES; i++) {
            if (languages[i].script != script)
                continue;
            score[i] += k >= 2 && strstr(languages[i].marks, c);
            score[i] += k == 0 && has_word(languages[i].words, word, n) ? 2 : 0;
        }
        if (k && n + k <= WORD)
            memcpy(word + n, c, k);
        n = k ? n + k : 0;
    }
}

/* The language, NULL if there is none to see; *letters: whether there are letters. */
static const struct language *guess(struct str text, bool *letters)
{
    int64_t count[SCRIPTS + 1] = {0}, score[LANGUAGES] = {0};
    int script = LATIN;
    const struct language *best = NULL;
    for (size_t at = 0; at < text.n;)
        count[script_of(utf8_next(text, &at))]++;
    if (count[KANA] * 5 > count[HAN]) /* Japanese mixes both */
        count[KANA] += count[HAN];
    for (int s = 0; s < SCRIPTS; s++)
        if (count[s] > count[script])
            script = s;
    *letters = count[script] > 0;
    if (!*letters)
        return NULL;
    points(text, (enum script)script, score);
    for (int i = 0; i < LANGUAGES; i++)
        if (languages[i].script == (enum script)script &&
            (!best || score[i] > score[best - languages]))
            best = &languages[i]; /* the first of equals: English before others */
    return best;
}

bool ifeval_knows_language(struct str code)
{
    for (int i = 0; i < LANGUAGES; i++)
        if (str_eqz(code, languages[i].code))
            return true;
    return false;
}

bool ifeval_is_language(struct str text, struct str code)
{
    bool letters;
    const struct language *l = guess(text, &letters);
    return !letters || str_eqz(code, l->code);
}

bool ifeval_is_english(struct str text)
{
    return ifeval_is_language(text, STR_LIT("en"));
}

/* ---- sentences ------------------------------------------------------------------------------ */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* What ends with this full stop is an abbreviation or an initial. */
static bool abbreviated(struct str s, size_t stop)
{
    static const char known[] =
        " mr mrs ms dr prof sr jr st vs etc inc ltd co corp gen col sen rep gov "
        "lt sgt capt rev hon no vol fig jan feb mar apr jun jul aug sep sept "
        "oct nov dec dept est approx ave blvd rd mt ft cf e.g i.e u.s u.k a.m "
        "p.m ph.d d.c b.c a.d ";
    char word[WORD + 1];
    size_t from = stop, n = 0;
    while (from > 0 && !is_blank(s.p[from - 1]) && !strchr("(\"'[", s.p[from - 1]))
        from--;
    if (stop - from == 1 && s.p[from] >= 'A' && s.p[from] <= 'Z')
        return s.p[from] != 'I';
    for (; from < stop && n < WORD; from++)
        word[n++] = (char)lower_of((unsigned char)s.p[from]);
    return has_word(known, word, n);
}

int64_t ifeval_sentences(struct str text)
{
    int64_t n = 0;
    bool open = false; /* something stands behind the last end */
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        open = open || !is_blank(c);
        if (c != '.' && c != '?' && c != '!')
            continue;
        size_t end = i + 1;
        while (end < text.n && strchr(".?!\"')]*_", text.p[end]) && text.p[end])
            end++;
        bool dots = c == '.' && i + 2 < text.n && text.p[i + 1] == '.' && text.p[i + 2] == '.';
        bool last = end >= text.n;
        if (!last && !is_blank(text.p[end])) {
            i = end - 1;
            continue;
        }
        size_t next = end;
        while (next < text.n && is_blank(text.p[next]))
            next++;
        bool goes_on = next < text.n && text.p[next] >= 'a' && text.p[next] <= 'z';
        if ((c == '.' && abbreviated(text, i)) || (dots && goes_on)) {
            i = end - 1;
            continue;
        }
        n += open;
        open = false;
        i = end - 1;
    }
    return n + open;
}

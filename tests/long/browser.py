"""browser: a page in headless Chromium, over the DevTools pipe (no library needed).

    browser.py CHROMIUM PAGE.html OUTDIR

Prints one line a check, "ok NAME" or "not ok NAME: what"; writes screenshots at phone and desktop
width, light and dark, and the page as printed, to OUTDIR.
"""
import base64
import fcntl
import json
import os
import subprocess
import sys
import tempfile


class Browser:
    def __init__(self, program, profile):
        r1, w1 = os.pipe()  # to the browser, its fd 3
        r2, w2 = os.pipe()  # from it, its fd 4

        # High numbers first, so that 3 and 4 are free to be taken.
        r1, w2 = (fcntl.fcntl(f, fcntl.F_DUPFD, 20) for f in (r1, w2))
        for f in (r1, w2):
            os.set_inheritable(f, True)
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage",
             "--user-data-dir=" + profile, "about:blank"],
            preexec_fn=lambda: (os.dup2(r1, 3), os.dup2(w2, 4)), close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(r1)
        os.close(w2)
        self.to, self.rest, self.source = w1, b"", r2
        self.n, self.events, self.session = 0, [], None

    def message(self):
        while b"\0" not in self.rest:
            got = os.read(self.source, 1 << 16)
            if not got:
                raise SystemExit("not ok the browser ends early")
            self.rest += got
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        self.n += 1
        m = {"id": self.n, "method": method, "params": params}
        if self.session:
            m["sessionId"] = self.session
        data = json.dumps(m).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            m = self.message()
            if m.get("id") == self.n:
                if "error" in m:
                    raise SystemExit(f"not ok {method}: {m['error']}")
                return m["result"]
            self.events.append(m)

    def wait(self, method):
        for e in self.events:
            if e.get("method") == method:
                return
        while True:
            m = self.message()
            self.events.append(m)
            if m.get("method") == method:
                return

    def js(self, text):
        r = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            return "exception: " + json.dumps(r["exceptionDetails"])[:300]
        return r["result"].get("value")


def check(good, name, what=""):
    print(f"ok {name}" if good else f"not ok {name}: {what}", flush=True)


def main():
    program, page, out = sys.argv[1:4]
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        b = Browser(program, profile)
        try:
            look(b, "file://" + os.path.abspath(page), out)
        finally:
            b.process.kill()
            b.process.wait()


def shoot(b, out, name, width, height, dark=False, full=True, at=0):
    b.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
           mobile=width < 600)
    b.call("Emulation.setEmulatedMedia", media="screen", features=[
        {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
    b.js(f"window.scrollTo(0,{at}); new Promise(f=>setTimeout(f,150))")
    shot = b.call("Page.captureScreenshot", format="png")
    with open(os.path.join(out, name + ".png"), "wb") as f:
        f.write(base64.b64decode(shot["data"]))


def look(b, url, out):
    target = b.call("Target.createTarget", url="about:blank")["targetId"]
    b.session = b.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for d in ("Page", "Runtime", "Log", "Network"):
        b.call(d + ".enable")
    b.events.clear()
    b.call("Page.navigate", url=url)
    b.wait("Page.loadEventFired")
    b.js("new Promise(f=>setTimeout(f,300))")

    asked = [e["params"]["request"]["url"] for e in b.events
             if e.get("method") == "Network.requestWillBeSent"]
    beyond = [u for u in asked if u != url and not u.startswith("data:")]
    check(url in asked and not beyond, "no request but for the page itself", beyond)
    sections = b.js("[...document.querySelectorAll('section')].map(s=>s.id+'@'+"
                    "Math.round(s.getBoundingClientRect().top+scrollY)).join(' ')")
    print("# sections:", sections)

    for width, height in ((390, 844), (320, 640), (1280, 900)):
        b.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
               deviceScaleFactor=1, mobile=width < 600)
        over = b.js("document.documentElement.scrollWidth-innerWidth")
        check(over is not None and over <= 0, f"nothing sticks out at {width} pixels", over)
        small = b.js("Math.min(...[...document.querySelectorAll('figure svg')]"
                     ".filter(s=>s.getBoundingClientRect().width>0)"
                     ".map(s=>12*s.getBoundingClientRect().width/s.viewBox.baseVal.width))")
        check(small is None or small >= 7, f"chart text has at least 7 pixels at {width}", small)

    styles = b.js("[['.charts','display','grid'],['.item','borderTopStyle','solid'],"
                  "['.skip','position','absolute'],['caption span','position','sticky']]"
                  ".filter(([q,k,v])=>(e=>e&&getComputedStyle(e)[k]!=v)(document.querySelector(q)))"
                  ".join(' ')")
    check(styles == "", "the whole style sheet is understood", styles)
    unnamed = b.js("[...document.querySelectorAll('svg')].filter(s=>s.getAttribute('role')!='img'||"
                   "!s.getAttribute('aria-labelledby').split(' ')"
                   ".every(i=>document.getElementById(i).textContent.trim().length>3)).length")
    check(unnamed == 0, "every chart has a title and a description", unnamed)
    ids = b.js("(a=>a.length-new Set(a).size)([...document.querySelectorAll('[id]')].map(e=>e.id))")
    check(ids == 0, "no id stands twice", ids)
    bare = b.js("[...document.querySelectorAll('table')].filter(t=>!t.caption||"
                "!t.caption.textContent.trim()||!t.querySelector('th[scope=col]')).length")
    check(bare == 0, "every table has a caption and column heads", bare)
    dead = b.js("[...document.querySelectorAll('nav a,a.skip')].filter(a=>"
                "!document.querySelector(a.getAttribute('href'))).length")
    check(dead == 0, "every link inside the page leads somewhere", dead)
    levels = b.js("[...document.querySelectorAll('h1,h2,h3,h4')].map(h=>+h.tagName[1])"
                  ".some((l,i,a)=>i&&l>a[i-1]+2)")
    check(levels is False, "headings go down in steps", levels)
    labels = b.js("[...document.querySelectorAll('input,select')].filter(e=>!e.labels.length).length")
    check(labels == 0, "every field has a label", labels)

    # The keyboard: the first stop is the skip link, then the navigation.
    b.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
    b.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9)
    check(b.js("document.activeElement.className") == "skip", "Tab reaches the skip link first",
          b.js("document.activeElement.outerHTML"))

    if b.js("!!document.querySelector('.item')"):
        n = b.js("document.querySelectorAll('.item').length")
        shown = "[...document.querySelectorAll('.item')].filter(i=>!i.hidden).length"
        first = b.js("document.querySelector('.item h4').textContent")
        b.js("(q=>{q.value=%s;q.dispatchEvent(new Event('input'))})(document.getElementById('q'))"
             % json.dumps(first))
        k = b.js(shown)
        check(0 < k < n, "search leaves the items with the words", f"{k} of {n}")
        b.js("(q=>{q.value='no such words';q.dispatchEvent(new Event('input'))})"
             "(document.getElementById('q'))")
        check(b.js(shown) == 0, "or none", b.js(shown))
        b.js("(q=>{q.value='';q.dispatchEvent(new Event('input'))})(document.getElementById('q'))")
        b.js("(f=>{f.value='differ';f.dispatchEvent(new Event('change'))})"
             "(document.getElementById('f'))")
        k = b.js(shown)
        check(0 <= k < n, "the filter leaves those that differ", f"{k} of {n}")
        b.js("(f=>{f.value='all';f.dispatchEvent(new Event('change'))})"
             "(document.getElementById('f'))")
        check(b.js(shown) == n, "and shows all again", b.js(shown))

    # Contrast of text on its ground, both modes (WCAG 2: 4.5).
    for dark in (False, True):
        b.call("Emulation.setEmulatedMedia", media="screen", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        worst = b.js("""(()=>{
            const c=s=>s.match(/[\\d.]+/g).map(Number), l=v=>{const f=v.slice(0,3).map(x=>{x/=255;
              return x<=.03928?x/12.92:((x+.055)/1.055)**2.4});return .2126*f[0]+.7152*f[1]+.0722*f[2]};
            const ground=e=>{for(;e;e=e.parentElement){const v=c(getComputedStyle(e).backgroundColor);
              if(v.length<4||v[3]>0)return v}return [255,255,255]};
            let w=99,t='';
            document.querySelectorAll('p,li,th,td,a,h1,h2,h3,h4,figcaption,summary,b,label,text').forEach(e=>{
              const s=getComputedStyle(e),f=c(e.tagName=='text'?s.fill:s.color),g=ground(e.closest('svg')||e);
              const a=l(f),b=l(g),r=(Math.max(a,b)+.05)/(Math.min(a,b)+.05);
              if(r<w){w=r;t=e.tagName+' '+e.textContent.slice(0,30)}});
            return w.toFixed(2)+' '+t})()""")
        check(float(str(worst).split()[0]) >= 4.5,
              f"text has contrast, {'dark' if dark else 'light'}", worst)

    b.js("document.querySelectorAll('#items details').forEach((d,i)=>d.open=i<2)")
    sec = dict(s.split("@") for s in (sections or "").split())
    for name, width, height in (("desktop", 1280, 1500), ("phone", 390, 1600)):
        for dark in (False, True):
            b.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                   deviceScaleFactor=1, mobile=width < 600)
            for part in sec:
                top = b.js(f"Math.round(document.getElementById('{part}')"
                           ".getBoundingClientRect().top+scrollY)")
                if part in ("summary", "metrics", "training", "items", "answers", "provenance"):
                    shoot(b, out, f"{name}-{'dark' if dark else 'light'}-{part}", width, height,
                          dark, at=0 if part == "summary" else top)
    b.js("document.querySelectorAll('details').forEach((d,i)=>{if(i<3)d.open=true})")
    b.call("Emulation.setEmulatedMedia", media="print")
    pdf = b.call("Page.printToPDF", printBackground=False)
    data = base64.b64decode(pdf["data"])
    with open(os.path.join(out, "print.pdf"), "wb") as f:
        f.write(data)
    check(data[:5] == b"%PDF-", "it prints")

    bad = [e["params"] for e in b.events if e.get("method") == "Runtime.exceptionThrown"]
    bad += [e["params"]["entry"] for e in b.events if e.get("method") == "Log.entryAdded"]
    bad += [e["params"] for e in b.events if e.get("method") == "Runtime.consoleAPICalled"]
    check(not bad, "the console is silent", json.dumps(bad)[:300])


main()

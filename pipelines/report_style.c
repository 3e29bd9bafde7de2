/* report_style: the page's style and script. Data. */
#include "pipelines/report.h"

static const char css[] =
    ":root{color-scheme:light dark;--fg:#1a1a1a;--bg:#fff;--dim:#595959;--edge:#d0d0d0;"
    "--soft:#f4f5f7;--good:#00694d;--bad:#a32a00;--link:#004c99}"
    "@media screen and (prefers-color-scheme:dark){:root{--fg:#e8e8e8;--bg:#16181c;--dim:#a8adb5;"
    "--edge:#3a3d42;--soft:#1f2228;--good:#5fd6ae;--bad:#ff9d7a;--link:#8cc4ff}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}"
    "main,header,footer{max-width:1180px;margin:0 auto;padding:0 16px}"
    "a{color:var(--link)}h1{font-size:1.7em;line-height:1.2;margin:.8em 0 .2em}"
    "h2{font-size:1.3em;margin:2em 0 .5em;border-bottom:1px solid var(--edge)}"
    "h3{font-size:1.08em;margin:1.5em 0 .4em}p{margin:.5em 0;max-width:75ch}"
    ".dim,figcaption,caption{color:var(--dim)}.skip{position:absolute;left:-99em}"
    ".skip:focus{position:static}nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;"
    "gap:.3em 1.2em;margin:.6em 0}"
    ":focus-visible{outline:3px solid var(--link);outline-offset:2px}"
    ".find{padding-left:1.2em}.find li{margin:.35em 0;max-width:85ch}"
    ".scroll{overflow-x:auto;margin:.6em 0;border:1px solid var(--edge);border-radius:6px}"
    "table{border-collapse:collapse;font-size:.88em;width:100%}caption{text-align:left;"
    "padding:.4em .7em;font-size:.95em}th,td{padding:.28em .7em;text-align:left;"
    "border-top:1px solid var(--edge);vertical-align:top;white-space:nowrap}"
    "td:last-child:not(.n){white-space:normal;min-width:20em}"
    "caption span{display:inline-block;position:sticky;left:.7em;"
    "max-width:min(75ch,calc(100vw - 4em))}"
    "thead th{background:var(--soft)}tbody th{font-weight:600}"
    ".n{text-align:right;font-variant-numeric:tabular-nums}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));"
    "gap:16px}figure{margin:0;border:1px solid var(--edge);border-radius:6px;padding:10px;"
    "min-width:0}figure svg{width:100%;height:auto;display:block}figcaption{font-size:.86em}"
    "figure h4{margin:0 0 .3em;font-size:.98em}summary{cursor:pointer;padding:.3em 0}"
    "details>summary{color:var(--link)}"
    ".filter{display:flex;flex-wrap:wrap;gap:.8em;align-items:end;margin:.8em 0}"
    ".filter label{display:block;font-size:.86em;color:var(--dim)}"
    ".filter input,.filter select{font:inherit;padding:.3em .5em;border:1px solid var(--edge);"
    "border-radius:5px;background:var(--bg);color:var(--fg);min-width:0;max-width:100%}"
    ".item{border:1px solid var(--edge);border-radius:6px;padding:.5em .8em;margin:.6em 0;"
    "content-visibility:auto;contain-intrinsic-size:auto 170px}"
    ".item h4{margin:.1em 0;font-size:.95em;white-space:pre-wrap;overflow-wrap:anywhere}"
    ".item .ref{margin:.2em 0;font-size:.9em;overflow-wrap:anywhere;white-space:pre-wrap}"
    ".side{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,210px),1fr));"
    "gap:8px;margin:.4em 0}.side div{background:var(--soft);border-radius:5px;padding:.35em .6em;"
    "font-size:.9em;white-space:pre-wrap;overflow-wrap:anywhere}"
    ".side b{display:block;font-size:.86em;color:var(--dim);font-weight:600}"
    ".better{color:var(--good);font-weight:600}.worse{color:var(--bad);font-weight:600}"
    "[hidden]{display:none!important}"
    "@media (max-width:600px){body{font-size:15px}th,td{padding:.25em .5em}}"
    "@media print{nav,.filter,.skip{display:none}body{font-size:10pt}main,header,footer{max-width:"
    "none}.scroll{overflow:visible;border:0}table{font-size:7.5pt}th,td{white-space:normal;"
    "padding:.15em .3em}figure,.item,tr{break-inside:avoid}h2,h3{break-after:avoid}"
    ".charts{grid-template-columns:1fr 1fr}.item{content-visibility:visible}a{color:inherit}}";

/* Filter and search of the answers; everything folded is opened for the printer. */
static const char js[] =
    "(function(){var d=document,q=d.getElementById('q'),f=d.getElementById('f'),"
    "n=d.getElementById('n');"
    "function go(){var w=q.value.toLowerCase().trim(),v=f.value,s=0;"
    "d.querySelectorAll('.item').forEach(function(i){"
    "var k=(v==='all'||(' '+i.dataset.k+' ').indexOf(' '+v+' ')>=0)&&"
    "(!w||i.textContent.toLowerCase().indexOf(w)>=0);i.hidden=!k;s+=k});"
    "n.textContent=s+' of '+d.querySelectorAll('.item').length+' items shown';}"
    "if(q){d.querySelector('.filter').hidden=false;q.addEventListener('input',go);"
    "f.addEventListener('change',go);go();}"
    "var opened=[];addEventListener('beforeprint',function(){"
    "d.querySelectorAll('details:not([open])').forEach(function(x){x.open=true;opened.push(x)})});"
    "addEventListener('afterprint',function(){opened.forEach(function(x){x.open=false});"
    "opened=[]});})();";

const char *report_css(void)
{
    return css;
}

const char *report_js(void)
{
    return js;
}

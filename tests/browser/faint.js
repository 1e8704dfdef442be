// Every text of a document against what is behind it, as WCAG 2.1 (1.4.3) counts: at least 4.5 to 1, and 3 to 1 where letters are large.
// Says the page's own ground, how many texts were looked at, and those that are too faint.
d => {
    const w = d.defaultView, parts = c => c.match(/[\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
    const behind = e => { for (; e; e = e.parentElement) { const c = parts(w.getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return null; };
    const found = []; let texts = 0;
    for (const e of d.body.querySelectorAll('*')) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
        if (!own || e.closest('title, desc, style')) continue;
        const style = w.getComputedStyle(e), svg = e.closest('svg');
        let ground = behind(svg || e), ink = parts(svg ? style.fill : style.color);
        if (svg && e.classList.contains('in')) {
            const cell = [...svg.querySelectorAll('rect')].find(r => [...r.classList].some(c => /^c\d$/.test(c) && e.classList.contains(c)));
            ground = parts(w.getComputedStyle(cell).fill);
        }
        texts += 1;
        const large = parseFloat(style.fontSize) >= 24 ? 3 : 4.5, is = ratio(ink, ground);
        if (is < large) found.push(e.tagName + '.' + (e.getAttribute('class') || '') + ' ' + is.toFixed(2) + ' ' + e.textContent.slice(0, 20));
    }
    return w.getComputedStyle(d.body).backgroundColor + ' ' + texts + ' ' + [...new Set(found)].slice(0, 8).join('; ');
}

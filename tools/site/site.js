const root = document.documentElement.dataset.root;
const make = (name, attributes, ...children) => { const e = Object.assign(document.createElement(name), attributes); e.append(...children); return e; };

// Formulas: the page holds MathML with the TeX inside; KaTeX draws it better. What KaTeX cannot draw stays MathML.
function draw(where) {
  for (const formula of where.querySelectorAll("math")) {
    const drawn = document.createElement("span"), displayMode = formula.getAttribute("display") === "block";
    try {
      katex.render(formula.querySelector("annotation").textContent, drawn, { displayMode });
      formula.replaceWith(drawn);
    } catch (error) { console.error(error); }
  }
}
draw(document);

// Scripts of the site are loaded when they are needed; they are scripts, not data, so that they load from file:// too.
const loading = {};
const load = name => loading[name] ??= new Promise((done, failed) =>
  document.head.append(make("script", { src: root + "site/" + name, onload: done, onerror: failed })));

// Light, dark, or as the machine has it.
const theme = document.getElementById("theme"), themes = { "": "Auto", light: "Light", dark: "Dark" };
const setTheme = value => {
  document.documentElement.dataset.theme = value;
  theme.textContent = themes[value];
  theme.title = theme.ariaLabel = `Colours: ${themes[value]}. Change`;
  try { localStorage.theme = value; } catch { /* private mode: for this page only */ }
};
setTheme(document.documentElement.dataset.theme);
theme.hidden = false;
theme.onclick = () => { const all = Object.keys(themes); setTheme(all[(all.indexOf(document.documentElement.dataset.theme) + 1) % 3]); };

// Chapters and contents: beside the text where there is room, folded above it elsewhere.
for (const part of document.querySelectorAll("[data-open-from]")) {
  const wide = matchMedia(`(min-width: ${part.dataset.openFrom}px)`), fit = () => { part.open = wide.matches; };
  fit(); wide.addEventListener("change", fit);
}
const keepInView = (box, link) => {
  if (link && box.scrollHeight > box.clientHeight) box.scrollTop = link.offsetTop - box.clientHeight / 2;
};
const chapters = document.querySelector(".sidebar"), contents = document.querySelector(".contents");
keepInView(chapters, chapters.querySelector("[aria-current]"));

// A link into a fold opens it.
const unfold = () => {
  let part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (part?.matches(".defines")) part = part.querySelector("details.code-fold") ?? part;
  while ((part = part?.closest("details:not([open])"))) part.open = true;
};
unfold(); addEventListener("hashchange", unfold);

// Code can be copied, headings linked to.
for (const shell of document.querySelectorAll("main pre:not(.output, .sourceCode, div.sourceCode pre)")) {
  const box = make("div", { className: "shell" });
  shell.replaceWith(box);
  box.append(shell);
}
for (const block of document.querySelectorAll("main :is(div.sourceCode, div.shell)")) {
  const button = make("button", { className: "copy", type: "button", textContent: "Copy" });
  button.onclick = async () => {
    getSelection().selectAllChildren(block.querySelector("code, pre"));
    await (navigator.clipboard?.writeText(getSelection().toString()) ?? document.execCommand("copy"));
    getSelection().removeAllRanges();
    button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  block.append(button);
}
// an option such as --dry-run is one word
for (const code of document.querySelectorAll("main :not(pre, a) > code"))
  if (/^--?[\w-]{1,28}$/.test(code.textContent)) code.classList.add("whole");
for (const heading of document.querySelectorAll("main h2[id], main h3[id]"))
  heading.append(make("a", { className: "anchor", href: "#" + heading.id, textContent: "#", ariaLabel: "Link to this section" }));

// What scrolls sideways can be reached and scrolled by keyboard.
const kinds = { "table-scroll": "Table", "katex-display": "Formula", sourceCode: "Code", output: "Output" };
const reachable = new ResizeObserver(entries => entries.forEach(({ target }) => {
  const name = Object.keys(kinds).find(kind => target.classList.contains(kind)) ?? "Text";
  if (target.scrollWidth > target.clientWidth + 1) Object.assign(target, { tabIndex: 0, role: "group", ariaLabel: `${name}, scrolls sideways` });
  else ["tabindex", "role", "aria-label"].forEach(attribute => target.removeAttribute(attribute));
}));
const watch = where => where.querySelectorAll("pre, .table-scroll, .katex-display").forEach(box => reachable.observe(box));
watch(document);
document.fonts.ready.then(() => { reachable.disconnect(); watch(document); }); // letters that come later make formulas wider

// The contents follow the reading.
const marks = new Map([...contents.querySelectorAll("a")].map(a => [document.getElementById(decodeURIComponent(a.hash.slice(1))), a]));
const follow = () => {
  const above = [...marks.keys()].filter(heading => heading.getBoundingClientRect().top < innerHeight * .3), here = marks.get(above.at(-1));
  if (here?.ariaCurrent) return;
  marks.forEach(link => { link.ariaCurrent = link === here ? "location" : null; });
  keepInView(contents, here);
};
let waiting = false;
addEventListener("scroll", () => { if (!waiting) requestAnimationFrame(() => { waiting = false; follow(); }); waiting = true; }, { passive: true });
follow();

// Previews of definitions, theorems and functions, on hover and on focus; the folds under definitions are filled from the same files.
const previews = {}, card = document.body.appendChild(make("div", { id: "preview", role: "tooltip", hidden: true }));
async function preview(where) {
  const [address, id] = where.split("#");
  await load(`previews/${address.replace(/html$/, "js")}`);
  const found = make("div", { innerHTML: previews[address][id] }), there = new URL(root + address, location.href);
  for (const link of found.querySelectorAll("a[href]")) link.href = new URL(link.getAttribute("href"), there);
  found.querySelectorAll("[id]").forEach(part => part.removeAttribute("id"));
  draw(found);
  return found;
}
let shownFor = null, timer;
const hide = () => { clearTimeout(timer); card.hidden = true; shownFor?.removeAttribute("aria-describedby"); shownFor = null; };
async function show(link) {
  shownFor = link;
  const found = await preview(link.dataset.preview);
  if (shownFor !== link) return;
  // of an entry in the reference the signature, the summary and the links
  if (link.dataset.preview.startsWith("reference/")) [...found.children].slice(3).forEach(part => part.remove());
  found.querySelectorAll("a").forEach(inner => inner.replaceWith(...inner.childNodes));
  card.replaceChildren(found);
  card.hidden = false;
  const at = link.getBoundingClientRect(), below = at.bottom + 8 + card.offsetHeight < innerHeight || at.top < card.offsetHeight + 70;
  card.style.left = `${Math.max(8, Math.min(at.left, innerWidth - card.offsetWidth - 16))}px`;
  card.style.top = `${below ? at.bottom + 8 : at.top - card.offsetHeight - 8}px`;
  link.setAttribute("aria-describedby", "preview");
}
for (const link of document.querySelectorAll("a[data-preview]")) {
  link.addEventListener("mouseenter", () => { hide(); timer = setTimeout(show, 250, link); });
  link.addEventListener("focus", () => { if (link.matches(":focus-visible")) { hide(); show(link); } });
  link.addEventListener("mouseleave", () => { timer = setTimeout(hide, 150); });
  link.addEventListener("blur", hide);
}
card.addEventListener("mouseenter", () => clearTimeout(timer));
card.addEventListener("mouseleave", hide);
addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
for (const fold of document.querySelectorAll("details.full")) fold.addEventListener("toggle", async () => {
  if (fold.dataset.filled) return;
  fold.dataset.filled = true;
  const found = await preview(fold.dataset.of);
  found.className = "documented";
  fold.querySelector("p").before(found);
  watch(found);
});

// Search by MiniSearch: all words, then any; typos forgiven; headings count more than text, sections and definitions more than functions.
const field = document.getElementById("site-search"), results = document.getElementById("site-results");
const worth = { page: 2, function: 1, name: 1, term: 1 }, usual = 3;
// lessons teach a term; measurements, answers and the page of symbols only use it
const places = [["lessons/", 2], ["inputs/columns.html", 2], ["about/sources.html", 2], ["about/other_libraries.html", .4], ["about/", 1.3], ["reference/", .35], ["examples/benchmarks", .5], ["source_target/real_data", .3], ["answers/", .3], ["notation.html", .3]];
const near = address => places.find(([start]) => address.startsWith(start))?.[1] ?? 1;
let engine;
async function search() {
  if (!engine) {
    await load("minisearch/minisearch.js"); await load("search-index.js");
    // of a question, the words that ask are not searched for
    const asks = /^(a|an|the|is|are|do|does|what|which|how|to|of|for|in|i|my|mean|should|can|need|use|take|when|why|where|you|me)$/i;
    engine ??= new MiniSearch({
      processTerm: word => asks.test(word) ? null : word.toLowerCase(),
      fields: ["title", "text", "chapter"],
      storeFields: ["kind", "address", "chapter", "title", "text"],
      searchOptions: {
        boost: { title: 6, chapter: 2 }, prefix: word => word.length > 2, fuzzy: word => word.length > 4 ? .2 : false,
        boostDocument: (id, word, { kind, address }) => (worth[kind] ?? usual) * near(address),
      },
    });
    if (!engine.documentCount) engine.addAll(searchIndex.map(([kind, address, chapter, title, text], id) => ({ id, kind, address, chapter, title, text })));
  }
  const words = field.value.trim();
  const single = words.replace(/^(\p{L}{4,}[^\Wsui])s$/u, "$1"), queries = single === words ? [words] : [words, single]; // a plural finds its singular, too
  let found = engine.search({ combineWith: "OR", queries: queries.map(one => ({ combineWith: "AND", queries: [one] })) });
  if (!found.length) found = engine.search(words);
  // what has an underscore: first the hits that hold these very letters; an option, with its dashes or without: first where the command explains it
  const written = words.toLowerCase(), option = "--" + written.replace(/^-+/, "").replace(/\s+/g, "-");
  const holds = (letters, { title, text }) => `${title} ${text}`.toLowerCase().includes(letters);
  if (written.includes("_")) found.sort((a, b) => holds(written, b) - holds(written, a));
  if (/^--|\w[ -]\w/.test(written)) {
    const at = found.findIndex(hit => hit.address.startsWith("command_line/") && holds(option, hit));
    if (at > 0) found.unshift(...found.splice(at, 1));
  }
  // the glossary's row of this very word is among the first five
  const row = found.findIndex(({ kind, title }) => kind === "term" && title.toLowerCase() === words.toLowerCase());
  if (row > 4) found.splice(4, 0, ...found.splice(row, 1));
  // the entry of this very name comes first: as it is written, or, where it cannot be a word of a language, in any case
  const coded = /\w[A-Z]|[_.\d]/, same = ({ kind, title }) => kind === "name" && title === words
    || /^(name|function)$/.test(kind) && coded.test(title) && title.toLowerCase() === words.toLowerCase();
  const entry = found.find(hit => hit.kind === "name" && same(hit)) ?? found.find(same);
  if (entry) found.unshift(...found.splice(found.indexOf(entry), 1));
  const seen = new Set(), shown = [];
  for (const hit of found) {
    const { address, chapter, title, text, kind, terms } = hit;
    if (seen.has(chapter + title) || shown.length === 20) continue;
    seen.add(chapter + title);
    const at = hit === entry ? 0 : Math.max(0, ...terms.map(term => text.toLowerCase().indexOf(term)).filter(i => i > 0).slice(0, 1)), start = at < 40 ? 0 : text.indexOf(" ", at - 40) + 1;
    shown.push(make("a", { href: root + address, onclick: () => { results.hidden = true; } },
      make("strong", { textContent: title }), make("em", { textContent: kind === "page" ? "chapter" : chapter }),
      make("span", { textContent: (start ? "… " : "") + text.slice(start, start + 120) })));
  }
  results.replaceChildren(...shown);
  if (words && !shown.length) results.textContent = "Nothing found. The glossary and the reference list all terms and names.";
  results.hidden = !words;
}
field.oninput = search;
addEventListener("keydown", event => {
  const links = [...results.querySelectorAll("a")], at = links.indexOf(document.activeElement);
  if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) field.focus();
  else if (event.key === "Escape" && !results.hidden) { results.hidden = true; field.blur(); }
  else if (event.key === "Enter" && document.activeElement === field) links[0]?.click();
  else if (!results.hidden && event.key === "ArrowDown") links[at + 1]?.focus();
  else if (!results.hidden && event.key === "ArrowUp") (links[at - 1] ?? field).focus();
  else return;
  event.preventDefault();
});
document.addEventListener("click", event => { if (!event.target.closest(".search")) results.hidden = true; });

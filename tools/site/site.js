// Formulas: the page holds MathML with the TeX inside; KaTeX draws it better. What KaTeX cannot draw stays MathML.
for (const formula of document.querySelectorAll("math")) {
  const drawn = document.createElement("span"), displayMode = formula.getAttribute("display") === "block";
  try {
    katex.render(formula.querySelector("annotation").textContent, drawn, { displayMode });
    formula.replaceWith(drawn);
  } catch (error) { console.error(error); }
}

// Chapters and contents: beside the text where there is room, folded above it on a phone.
for (const part of document.querySelectorAll("[data-open-from]")) {
  const wide = matchMedia(`(min-width: ${part.dataset.openFrom}px)`), fit = () => { part.open = wide.matches; };
  fit(); wide.addEventListener("change", fit);
}
document.querySelector(".sidebar [aria-current]")?.scrollIntoView({ block: "nearest" });
addEventListener("beforeprint", () => document.querySelectorAll("main details").forEach(part => { part.open = true; }));

// A link into a folded proof opens it.
const unfold = () => document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("main details")?.setAttribute("open", "");
unfold(); addEventListener("hashchange", unfold);

// Code can be copied, headings linked to.
for (const block of document.querySelectorAll("main div.sourceCode")) {
  const button = Object.assign(document.createElement("button"), { className: "copy", textContent: "Copy" });
  button.onclick = async () => {
    getSelection().selectAllChildren(block.querySelector("code"));
    await (navigator.clipboard?.writeText(getSelection().toString()) ?? document.execCommand("copy"));
    getSelection().removeAllRanges();
    button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  block.append(button);
}
for (const heading of document.querySelectorAll("main h2[id], main h3[id]"))
  heading.append(Object.assign(document.createElement("a"), { className: "anchor", href: "#" + heading.id, textContent: "#", ariaLabel: "Link to this section" }));

// The heading in view is marked in the contents.
const marks = new Map([...document.querySelectorAll(".contents a")].map(a => [decodeURIComponent(a.hash.slice(1)), a]));
const seen = new IntersectionObserver(entries => entries.filter(e => e.isIntersecting).forEach(entry => {
  marks.forEach((link, id) => link.classList.toggle("here", id === entry.target.id));
}), { rootMargin: "0px 0px -70% 0px" });
marks.forEach((_, id) => seen.observe(document.getElementById(id)));

// Search: the index is a script, so that it loads from file:// too. All words must occur; headings count more than text.
const field = document.getElementById("site-search"), results = document.getElementById("site-results"), root = document.documentElement.dataset.root;
let index;
function load() {
  if (index) return;
  const script = document.createElement("script");
  script.src = root + "site/search-index.js"; index = [];
  script.onload = () => { index = searchIndex; search(); };
  document.head.append(script);
}
function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const score = ([, page, heading, text]) => Math.min(...words.map(word =>
    10 * heading.toLowerCase().startsWith(word) + 10 * heading.toLowerCase().includes(word) + 5 * page.toLowerCase().includes(word) + text.toLowerCase().includes(word)));
  const found = index.map(entry => [score(entry), entry]).filter(([points]) => words.length && points > 0)
    .sort(([a], [b]) => b - a).slice(0, 20);
  results.replaceChildren(...found.map(([, [address, page, heading, text]]) => {
    const link = Object.assign(document.createElement("a"), { href: root + address });
    const title = Object.assign(document.createElement("strong"), { textContent: heading ? `${heading} · ${page}` : page });
    const start = Math.max(0, text.toLowerCase().indexOf(words[0]) - 40);
    link.append(title, (start ? "… " : "") + text.slice(start, start + 120));
    link.onclick = () => { results.hidden = true; };
    return link;
  }));
  if (words.length && !found.length) results.textContent = "Nothing found.";
  results.hidden = !words.length;
}
field.onfocus = load;
field.oninput = search;
addEventListener("keydown", event => {
  const links = [...results.querySelectorAll("a")], at = links.indexOf(document.activeElement);
  if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) field.focus();
  else if (event.key === "Escape") { results.hidden = true; field.blur(); }
  else if (!results.hidden && event.key === "ArrowDown") links[at + 1]?.focus();
  else if (!results.hidden && event.key === "ArrowUp") (links[at - 1] ?? field).focus();
  else return;
  event.preventDefault();
});
document.addEventListener("click", event => { if (!event.target.closest(".search")) results.hidden = true; });

// Formulas are drawn as on the site. A slide is 1280 pixels wide and as high as the window allows, 720 pixels or more; the
// whole deck is then scaled to the window. Text is as large as there is room for, and never below 24 pixels; a picture has its
// words above it or next to it, whichever shows it larger.
for (const formula of document.querySelectorAll("math")) {
  const drawn = document.createElement("span"), displayMode = formula.getAttribute("display") === "block";
  try { katex.render(formula.querySelector("annotation").textContent, drawn, { displayMode }); formula.replaceWith(drawn); }
  catch (error) { console.error(error); }
}
for (const formula of document.querySelectorAll(".katex")) { // a full stop stays with its formula
  const drawn = formula.parentElement, after = drawn.nextSibling, stop = /^[.,;:?!)]+/.exec(after?.data ?? "");
  if (!stop || drawn.querySelector(".katex-display")) continue;
  const whole = document.createElement("span");
  whole.className = "whole";
  drawn.replaceWith(whole);
  after.deleteData(0, stop[0].length);
  whole.append(drawn, stop[0]);
}
const WIDE = 1280, HIGH = 720, slides = [...document.querySelectorAll(".slide")];
const fits = box => box.scrollHeight <= box.clientHeight && box.scrollWidth <= box.clientWidth &&
  [...box.querySelectorAll(".words :is(p, li, pre, table, ol, ul, div)")].every(e => e.scrollWidth <= e.clientWidth + 1);
const scale = picture => Math.min(picture.clientWidth / picture.naturalWidth, picture.clientHeight / picture.naturalHeight);
const set = (box, size, share) => {
  box.style.setProperty("--size", size + "px");
  box.style.setProperty("--share", share);
  box.classList.toggle("beside", share > 0);
};
function fit(box) {
  const picture = box.querySelector("img"), sizes = [36, 34, 32, 30, 28, 26, 24].slice(picture ? 3 : 0);
  const shares = picture && box.querySelector(".words") ? [0, 1.3, 1.6, 1.9, 2.2, 2.6] : [0]; // of the picture, next to 1 of words
  let best = [24, 0], seen = 0;
  for (const share of shares) {
    const size = sizes.find(size => (set(box, size, share), fits(box)));
    if (!size) continue;
    const value = picture ? scale(picture) * (0.7 + size / 100) : 1; // larger words make up for a somewhat smaller picture
    if (value > seen) [best, seen] = [[size, share], value];
  }
  set(box, ...best);
}
function lay(width, height) {
  const zoom = Math.min(width / WIDE, height / HIGH);
  document.body.style.zoom = zoom;
  document.documentElement.style.setProperty("--height", Math.max(HIGH, height / zoom) + "px");
  document.querySelectorAll(".content").forEach(fit);
}
const now = () => slides.findIndex(s => s.getBoundingClientRect().bottom > innerHeight / 2);
let printed = 0;
const again = (at = Math.max(0, now())) => { lay(innerWidth, innerHeight); slides[at].scrollIntoView(); };
document.fonts.ready.then(() => Promise.all([...document.images].map(image => image.decode()))).then(() => {
  lay(innerWidth, innerHeight);
  const named = () => slides[location.hash.slice(1) - 1]?.scrollIntoView(); // #14 opens slide 14
  named();
  addEventListener("hashchange", named);
  document.documentElement.dataset.ready = "yes";
  addEventListener("resize", () => again());
  addEventListener("afterprint", () => again(printed));
  addEventListener("beforeprint", () => { printed = Math.max(0, now()); lay(WIDE, HIGH); });
  const keys = { ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1, Home: -99, End: 99 };
  addEventListener("keydown", key => {
    if (!(key.key in keys) || key.ctrlKey || key.metaKey || key.altKey) return;
    key.preventDefault();
    slides[Math.max(0, Math.min(slides.length - 1, now() + keys[key.key]))].scrollIntoView();
  });
});

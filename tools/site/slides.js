// Formulas are drawn as on the site; text is as large as the slide has room for, and never below 24 pixels.
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
const fits = box => box.scrollHeight <= box.clientHeight && box.scrollWidth <= box.clientWidth &&
  [...box.querySelectorAll(".words :is(p, li, pre, table, ol, ul, div)")].every(e => e.scrollWidth <= e.clientWidth + 1);
document.fonts.ready.then(() => {
  for (const box of document.querySelectorAll(".content")) {
    for (const size of [36, 34, 32, 30, 28, 26, 24].slice(box.querySelector("img") ? 3 : 0)) {
      box.style.setProperty("--size", size + "px");
      if (fits(box)) break;
    }
  }
  document.documentElement.dataset.ready = "yes";
});
if (!matchMedia("print").matches) {
  const slides = [...document.querySelectorAll(".slide")];
  const zoom = () => { document.body.style.zoom = Math.min(innerWidth / 1280, innerHeight / 720); };
  zoom(); addEventListener("resize", zoom); addEventListener("beforeprint", () => { document.body.style.zoom = 1; });
  addEventListener("afterprint", zoom);
  const now = () => slides.findIndex(s => s.getBoundingClientRect().bottom > innerHeight / 2);
  const keys = { ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1, Home: -99, End: 99 };
  addEventListener("keydown", key => {
    if (!(key.key in keys) || key.ctrlKey || key.metaKey || key.altKey) return;
    key.preventDefault();
    slides[Math.max(0, Math.min(slides.length - 1, now() + keys[key.key]))].scrollIntoView();
  });
}

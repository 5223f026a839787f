// Things to play with in a page: no kernel, no network, no library. explorers.py writes a <div class="dplit-explorer">
// with its kind and its numbers; this script, which may run any number of times, makes each of them live once.
(() => {
  "use strict";
  const WITH = "#d1541f", WITHOUT = "#2f7fc1"; // at least 3 to 1 on white and on black; the dashes say the same

  const STYLE = `
    .dplit-explorer { max-width: 42rem; margin: 1rem 0; padding: .6rem 1rem; border: 1px solid #8888; border-radius: .4rem; }
    .dplit-explorer > p { margin: .3rem 0; }
    .dplit-explorer label { display: flex; flex-wrap: wrap; align-items: center; gap: 0 .8rem; margin: .2rem 0; }
    .dplit-explorer label > span { flex: 0 0 11rem; }
    .dplit-explorer label > input { flex: 1 1 9rem; min-width: 0; height: 1.8rem; margin: 0; }
    .dplit-explorer label > b { flex: 0 0 6.5rem; font-weight: 600; }
    .dplit-explorer :is(button, select) { font: inherit; min-height: 1.8rem; }
    .dplit-explorer ol { margin: .3rem 0; columns: 15rem; }
    .dplit-explorer svg { display: block; width: 100%; height: auto; }
    .dplit-explorer svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
    .dplit-explorer svg .ink { stroke: currentColor; fill: none; }
    .dplit-explorer svg .faint { opacity: .15; }`;

  // ---- What privacy costs ------------------------------------------------------------------------------------------

  // delta of a mu-GDP release: the density of a normal number above t, times the share by which the other is less likely.
  // One integral of positive numbers (Simpson's rule), so that nothing cancels.
  function gaussianDelta(epsilon, mu) {
    if (mu === 0) return Math.max(0, -Math.expm1(epsilon));
    if (epsilon < 0) return -Math.expm1(epsilon) + Math.exp(epsilon) * gaussianDelta(-epsilon, mu);
    const t = epsilon / mu - mu / 2, root = Math.sqrt(t * t + 80), n = 600;
    const h = (t > 0 ? 80 / (root + t) : root - t) / n; // further out there is less than exp(-40) of it
    let sum = 0;
    for (let i = 1; i <= n; i++) {
      const weight = i === n ? 1 : i % 2 ? 4 : 2;
      sum += weight * Math.exp(-((t + i * h) ** 2) / 2) * -Math.expm1(-mu * i * h);
    }
    return (sum * h) / 3 / Math.sqrt(2 * Math.PI);
  }

  // Where a falling function reaches a level; 0 if it starts below.
  function crossing(f, level) {
    if (f(0) <= level) return 0;
    let low = 0, high = 1;
    while (f(high) > level) [low, high] = [high, 2 * high];
    for (let i = 0; i < 48; i++) {
      const middle = (low + high) / 2;
      if (f(middle) > level) low = middle; else high = middle;
    }
    return high;
  }
  const gaussianEpsilon = (delta, mu) => crossing((e) => gaussianDelta(e, mu), delta);
  const gaussianMu = (epsilon, delta) => 1 / crossing((sigma) => (sigma ? gaussianDelta(epsilon, 1 / sigma) : 1), delta);

  // Each pure release is at worst a coin that gains or loses its privacy cost: all their sums, each with its probability.
  function coins(costs) {
    let sums = new Map([["0", [0, 1]]]);
    for (const cost of costs) {
      const next = new Map(), gain = 1 / (1 + Math.exp(-cost));
      for (const [loss, chance] of sums.values())
        for (const [l, p] of [[loss + cost, chance * gain], [loss - cost, chance * (1 - gain)]]) {
          const key = l.toFixed(9);
          next.set(key, [l, p + (next.get(key)?.[1] ?? 0)]);
        }
      sums = next;
    }
    return [...sums.values()];
  }
  const mixtureDelta = (epsilon, mu, sums) =>
    sums.reduce((total, [loss, chance]) => total + chance * gaussianDelta(epsilon - loss, mu), 0);

  // ---- Parts of a page ---------------------------------------------------------------------------------------------

  const SVG = "http://www.w3.org/2000/svg";
  function add(parent, tag, attributes = {}, text = "") {
    const drawn = parent instanceof SVGElement || tag === "svg";
    const child = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) child.setAttribute(name, value);
    child.textContent = text;
    return parent.appendChild(child);
  }
  function number(x) {
    if (x === 0 || (Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5)) return String(Number(x.toPrecision(3)));
    const [digits, power] = x.toExponential(1).split("e");
    const raised = [...power].map((c) => (c === "-" ? "⁻" : c === "+" ? "" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
    return `${Number(digits) === 1 ? "" : `${Number(digits)} · `}10${raised}`;
  }
  const percent = (x) => `${(100 * x).toFixed(1)}\u00a0%`;

  // A slider with its name and its value, which is a function of its position. It begins at `place(given)`, and shows
  // the given number there, which may lie between two steps.
  function slider(box, name, [low, high, step], given, value, show, place = Number) {
    const label = add(box, "label");
    add(label, "span", {}, name);
    const input = add(label, "input", { type: "range", "aria-label": name, min: low, max: high, step, value: place(given) });
    const start = input.value, said = add(label, "b");
    return () => {
      const now = input.value === start ? given : value(Number(input.value));
      said.textContent = show(now);
      input.setAttribute("aria-valuetext", show(now));
      return now;
    };
  }
  function choice(box, name, options) {
    const label = add(box, "label");
    add(label, "span", {}, name);
    const select = add(label, "select");
    for (const option of options) add(select, "option", {}, option);
    return () => select.value;
  }

  const ticks = (low, high, log) => {
    if (log) {
      const from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9);
      const every = Math.max(1, Math.ceil((to - from) / 6));
      return Array.from({ length: Math.floor((to - from) / every) + 1 }, (_, i) => 10 ** (from + i * every));
    }
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
  };

  // Curves with their names at their ends, on axes of [low, high, logarithmic?]. As wide as there is room, so that
  // letters keep their size on a phone.
  function chart(svg, { x, y, xname, yname, curves, dots = [] }) {
    const width = Math.max(280, Math.min(620, svg.parentElement.clientWidth || 560)), height = 250;
    const left = 48, right = width - 12, top = 24, bottom = height - 40;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const scale = ([low, high, log], from, to) => {
      const f = log ? Math.log : Number;
      return (v) => from + ((f(Math.min(Math.max(v, low), high)) - f(low)) / (f(high) - f(low))) * (to - from);
    };
    const X = scale(x, left, right), Y = scale(y, bottom, top);
    for (const v of ticks(...x)) {
      add(svg, "path", { d: `M${X(v)},${bottom}v4`, class: "ink" });
      add(svg, "text", { x: X(v), y: bottom + 16, "text-anchor": "middle" }, number(v));
    }
    for (const v of ticks(...y)) {
      add(svg, "path", { d: `M${left},${Y(v)}H${right}`, class: "ink faint" });
      add(svg, "text", { x: left - 5, y: Y(v) + 4, "text-anchor": "end" }, number(v));
    }
    add(svg, "path", { d: `M${left},${top}V${bottom}H${right}`, class: "ink" });
    add(svg, "text", { x: right, y: height - 6, "text-anchor": "end" }, xname);
    add(svg, "text", { x: 2, y: 12 }, yname);
    for (const { points, color = "currentColor", dash = "", name = "", at = 0, under = false, side = "" } of curves) {
      // what falls out of the picture ends there
      const line = points.filter((_, i) => i === 0 || points[i - 1][1] >= y[0]).map(([a, b]) => `${X(a).toFixed(1)},${Y(b).toFixed(1)}`);
      add(svg, "polyline", { points: line.join(" "), fill: "none", stroke: color, "stroke-width": 2, "stroke-dasharray": dash });
      const [a, b] = points[Math.round(at * (points.length - 1))];
      const before = side ? side === "left" : X(a) > (left + right) / 2;
      add(svg, "text", { x: X(a) + (before ? -6 : 6), y: Y(b) + (under ? 18 : -6), "text-anchor": before ? "end" : "start", class: "name" }, name);
    }
    for (const [a, b] of dots) add(svg, "circle", { cx: X(a), cy: Y(b), r: 5, fill: "currentColor" });
  }
  const along = (low, high, n, f) => Array.from({ length: n + 1 }, (_, i) => low + (i * (high - low)) / n).map((v) => [v, f(v)]);

  // ---- The explorers: each builds its controls and returns what draws it ---------------------------------------------
  // `draw` gives the sentence below the picture and the numbers in it, which the tests compare with dplit's.

  const EXPLORERS = {
    composition(box, svg, given) {
      const sigma = slider(box, "noise, in sensitivities", [-1, 2, 0.01], given.noise, (v) => Number((10 ** v).toPrecision(3)), number, Math.log10);
      const times = slider(box, "releases", [0, 3, 0.02], given.times, (v) => Math.round(10 ** v), String, Math.log10);
      const delta = slider(box, "delta", [-12, -2, 1], given.delta, (v) => 10 ** v, number, Math.log10);
      return () => {
        const s = sigma(), t = times(), d = delta(), mu = Math.sqrt(t) / s;
        const epsilon = gaussianEpsilon(d, mu), one = gaussianEpsilon(d, 1 / s), sum = t * gaussianEpsilon(d / t, 1 / s);
        const end = Math.max(1.3 * epsilon, 1e-3);
        const curve = (m) => along(0, end, 80, (e) => gaussianDelta(e, m));
        chart(svg, {
          x: [0, end], y: [d / 100, 1, true], xname: "epsilon", yname: "delta", dots: [[epsilon, d]],
          curves: [
            { points: curve(1 / s), color: WITHOUT, dash: "6 4", name: t > 1 ? "one release" : "" , at: 0.02 },
            { points: curve(mu), color: WITH, name: t > 1 ? `all ${t}` : "one release", at: 0.3 },
          ],
        });
        const added = t > 1 ? ` Sequential composition alone would say ${number(sum)}.` : "";
        const text = `Together mu = ${number(mu)}: at delta = ${number(d)} that is epsilon = ${number(epsilon)}.${added}`;
        return [text, { noise: s, times: t, delta: d, mu, epsilon, one, sum }];
      };
    },

    neighboring(box, svg, given) {
      const kind = choice(box, "noise", ["Laplace", "Gaussian"]);
      const cost = slider(box, "epsilon", [0.1, 5, 0.05], given.epsilon, Number, number);
      return () => {
        const epsilon = cost(), laplace = kind() === "Laplace";
        const scale = 1 / (laplace ? epsilon : gaussianMu(epsilon, given.delta));
        const density = laplace
          ? (v) => Math.exp(-Math.abs(v) / scale) / (2 * scale)
          : (v) => Math.exp(-((v / scale) ** 2) / 2) / (scale * Math.sqrt(2 * Math.PI));
        const gap = laplace ? -Math.expm1(-epsilon / 2) : gaussianDelta(0, 1 / scale);
        const right = (1 + gap) / 2, factor = Math.exp(epsilon), half = 4;
        chart(svg, {
          x: [-half, half + 1], y: [0, 1.15 * density(0)], xname: "published number", yname: "density",
          curves: [
            { points: along(-half, half + 1, 180, density), color: WITHOUT, dash: "6 4", name: "without you", at: 4 / 9, side: "left" },
            { points: along(-half, half + 1, 180, (v) => density(v - 1)), color: WITH, name: "with you", at: 5 / 9, side: "right" },
          ],
        });
        const except = laplace ? "" : `, but for an area of ${number(given.delta)} that sticks out above that`;
        const text = `The noise has ${laplace ? "scale" : "standard deviation"} ${number(scale)}. One curve is at most ${number(factor)} times`
          + ` the other${except}. An adversary who guesses from the number is right ${percent(right)} of the time; a coin, 50\u00a0%.`;
        return [text, { epsilon, scale, factor, right, density: [density(0), density(1)] }];
      };
    },

    audit(box, svg, given) {
      const names = Object.keys(given.bounds), top = 1.15 * Math.max(given.claim, ...names.flatMap((n) => given.bounds[n]));
      const last = given.runs.length - 1;
      const at = slider(box, "runs on each side", [0, last, 1], last, Number, (i) => String(given.runs[i]));
      return () => {
        const i = at(), n = given.runs[i];
        chart(svg, {
          x: [given.runs[0], given.runs[last], true], y: [0, top], xname: "runs on each side", yname: given.what,
          curves: [
            { points: given.runs.map((r) => [r, given.claim]), dash: "2 3", name: "the claim", at: 1 },
            ...names.map((name, j) => ({
              points: given.runs.slice(0, i + 1).map((r, k) => [r, given.bounds[name][k]]),
              color: [WITHOUT, WITH][j % 2], dash: j ? "" : "6 4", name, at: 1, under: given.bounds[name][i] <= given.claim,
            })),
          ],
          dots: names.map((name) => [n, given.bounds[name][i]]),
        });
        const said = names.map((name) => {
          const bound = given.bounds[name][i];
          return `“${name}” at least ${number(bound)}, ${bound > given.claim ? "more than it claims" : "no contradiction"}`;
        });
        return [`After ${n} runs on each side: ${said.join("; ")}.`, { runs: n, bounds: names.map((name) => given.bounds[name][i]) }];
      };
    },

    receipt(box, svg, given, redraw) {
      const releases = given.releases.map(([kind, cost]) => ({ kind, cost }));
      const kind = choice(box, "noise", ["Gaussian", "Laplace"]);
      const single = slider(box, "privacy cost of one release", [0.05, 1, 0.05], 0.2, Number, (v) => `${kind() === "Gaussian" ? "mu" : "epsilon"} = ${number(v)}`);
      const button = add(box, "button", { type: "button" }, "Add this release");
      const list = add(box, "ol");
      button.addEventListener("click", () => {
        releases.push({ kind: kind(), cost: single() });
        redraw();
      });
      return () => {
        single();
        list.replaceChildren();
        releases.forEach((release, i) => {
          const words = `${release.kind}, ${release.kind === "Gaussian" ? "mu" : "epsilon"} = ${number(release.cost)} `;
          const item = add(list, "li", {}, words);
          add(item, "button", { type: "button", "aria-label": `Take back release ${i + 1}` }, "take back").addEventListener("click", () => {
            releases.splice(i, 1);
            redraw();
            (list.querySelectorAll("button")[Math.min(i, releases.length - 1)] ?? button).focus();
          });
        });
        button.disabled = releases.length >= 10;
        const total = (chosen) => {
          const mu = Math.hypot(...chosen.filter((r) => r.kind === "Gaussian").map((r) => r.cost));
          const sums = coins(chosen.filter((r) => r.kind === "Laplace").map((r) => r.cost));
          return chosen.length ? crossing((e) => mixtureDelta(e, mu, sums), given.delta) : 0;
        };
        const totals = releases.map((_, i) => total(releases.slice(0, i + 1)));
        const alone = releases.map((r) => total([r])), added = alone.map((_, i) => alone.slice(0, i + 1).reduce((a, b) => a + b));
        const epsilon = totals.at(-1) ?? 0, n = Math.max(releases.length, 5);
        const steps = (values) => [[0, 0], ...values.map((v, i) => [i + 1, v])];
        chart(svg, {
          x: [0, n], y: [0, 1.15 * Math.max(0.5, ...added)], xname: "releases", yname: "epsilon", dots: [[releases.length, epsilon]],
          curves: [
            { points: steps(added), color: WITHOUT, dash: "6 4", name: releases.length > 1 ? "added up (sequential composition)" : "", at: 1 },
            { points: steps(totals), color: WITH, name: releases.length ? "all together" : "", at: 1, under: true },
          ],
        });
        return [`At delta = ${number(given.delta)} all of it costs epsilon = ${number(epsilon)}.`, { releases: releases.map((r) => [r.kind, r.cost]), epsilon, alone }];
      };
    },
  };

  if (!document.getElementById("dplit-explorer-style"))
    add(document.head, "style", { id: "dplit-explorer-style" }, STYLE);
  for (const root of document.querySelectorAll(".dplit-explorer:not([data-live])")) {
    root.dataset.live = "";
    root.querySelector(".still")?.remove();
    const box = add(root, "div", { class: "controls" });
    const picture = add(root, "div"), svg = add(picture, "svg", { role: "img" });
    const sentence = add(root, "p", { "aria-live": "polite" });
    let draw = () => ["", {}];
    const redraw = () => {
      const [text, numbers] = draw();
      svg.setAttribute("aria-label", text);
      sentence.textContent = text;
      root.dataset.numbers = JSON.stringify(numbers);
    };
    draw = EXPLORERS[root.dataset.kind](box, svg, JSON.parse(root.dataset.given), redraw);
    box.addEventListener("input", redraw);
    new ResizeObserver(redraw).observe(picture);
    redraw();
  }
})();

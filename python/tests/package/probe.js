// Runs in a page around frames that hold reports, and leaves in the title what a reader would meet in each.
function channels(colour) {
  return colour.match(/[\d.]+/g).slice(0, 3).map(Number);
}
function luminance(colour) {
  const [r, g, b] = channels(colour).map((x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
// As WCAG 2 has it: 1 is none, 21 black on white.
function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}
// The paint behind a point of a drawing: the last rectangle before the words that has it, else the page.
function behind(svg, words, canvas) {
  const box = words.getBBox(), x = box.x + box.width / 2, y = box.y + box.height / 2;
  let colour = canvas;
  for (const rect of svg.querySelectorAll("rect")) {
    const r = rect.getBBox();
    const holds = r.x <= x && x <= r.x + r.width && r.y <= y && y <= r.y + r.height;
    if (holds && rect.compareDocumentPosition(words) & Node.DOCUMENT_POSITION_FOLLOWING) colour = getComputedStyle(rect).fill;
  }
  return colour;
}
function seen(frame) {
  const page = frame.contentDocument, root = page.documentElement, view = frame.contentWindow;
  const patch = page.body.appendChild(page.createElement("div"));
  patch.style.background = "Canvas";
  const canvas = view.getComputedStyle(patch).backgroundColor;
  patch.remove();
  const found = {
    name: frame.title, width: root.clientWidth, dark: view.matchMedia("(prefers-color-scheme: dark)").matches, faults: [],
    drawings: page.querySelectorAll("figure > svg").length, text: contrast(view.getComputedStyle(page.body).color, canvas), least: 21, stops: 0,
  };
  const fault = (words) => found.faults.push(words);
  if (root.scrollWidth > root.clientWidth) fault(`the page is ${root.scrollWidth} wide`);
  if (page.querySelectorAll("h1").length !== 1) fault("not one heading");
  if (page.scripts.length > 0) fault("a script");
  for (const table of page.querySelectorAll("table"))
    if (table.scrollWidth > root.clientWidth && view.getComputedStyle(table.parentElement).overflowX !== "auto") fault("a table that cannot be scrolled");
  for (const svg of page.querySelectorAll("figure > svg")) {
    const name = svg.querySelector("title").textContent, box = svg.getBoundingClientRect();
    const stretches = !svg.hasAttribute("viewBox"), size = stretches ? box : svg.viewBox.baseVal;
    if (stretches && Math.abs(box.width - svg.parentElement.clientWidth) > 1) fault(`${name}: is not as wide as the page`);
    if (box.width < 100 || box.height < 20) fault(`${name}: ${box.width} by ${box.height}`);
    if (box.width > svg.parentElement.clientWidth + 1 && view.getComputedStyle(svg.parentElement).overflowX !== "auto") fault(`${name}: is cut off`);
    if (12 * box.width < 9.9 * size.width) fault(`${name}: words of ${((12 * box.width) / size.width).toFixed(1)} pixels`);
    for (const words of svg.querySelectorAll("text")) {
      const at = words.getBBox();
      if (at.x < -0.5 || at.x + at.width > size.width + 0.5) fault(`${name}: "${words.textContent}" ends at ${at.x + at.width} of ${size.width}`);
      const here = contrast(view.getComputedStyle(words).fill, behind(svg, words, canvas));
      found.least = Math.min(found.least, here);
      if (here < 3) fault(`${name}: "${words.textContent}" has a contrast of ${here.toFixed(1)}`);
    }
  }
  for (const stop of page.querySelectorAll("[tabindex]")) {
    stop.focus();
    found.stops += 1;
    if (page.activeElement !== stop) fault("what the keyboard does not reach");
    if (view.getComputedStyle(stop).outlineStyle === "none") fault("what does not show that it has the focus");
  }
  return found;
}
addEventListener("load", () => {
  const all = [...document.querySelectorAll("iframe")].map(seen);
  document.body.replaceChildren();
  document.body.textContent = JSON.stringify(all);
});

// Values of charts under the pointer, by touch and with the arrow keys. Without scripts the browser shows the titles.
(() => {
  "use strict";
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  let at = null;

  function show(mark, x, y) {
    hide();
    at = mark;
    mark.classList.add("at");
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), edge = document.documentElement.clientWidth - 8;
    tip.style.left = `${Math.max(8, Math.min(x + 14, edge - box.width)) + scrollX}px`;
    tip.style.top = `${(y - box.height - 10 < 0 ? y + 18 : y - box.height - 10) + scrollY}px`;
  }
  function hide() {
    at?.classList.remove("at");
    at = null;
    tip.hidden = true;
  }
  function prepare(svg) {
    if (svg.dataset.tips) return;
    svg.dataset.tips = "true";
    for (const title of svg.querySelectorAll("title")) {
      title.parentNode.dataset.tip = title.textContent;
      title.remove();
    }
    const marks = [...svg.querySelectorAll("[data-tip]")];
    if (!marks.length) return;
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("pointermove", (event) => {
      const mark = event.target.closest("[data-tip]");
      if (mark) show(mark, event.clientX, event.clientY);
      else hide();
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      if (event.key === "Escape") hide();
      if (event.key === "Enter") at?.dispatchEvent(new MouseEvent("click", {bubbles: true}));
      if (!step) return;
      event.preventDefault();
      const next = marks[(marks.indexOf(at) + step + marks.length) % marks.length], box = next.getBoundingClientRect();
      show(next, box.left + box.width / 2, box.top);
    });
  }
  globalThis.jbpoolTips = (part) => part.querySelectorAll("svg").forEach(prepare);
  jbpoolTips(document);
})();

// Test graphs, four at a time, filtered by outcome or by a cell of the confusion matrix.
(() => {
  "use strict";
  const root = document.querySelector(".browser");
  if (!root || !globalThis.DecompressionStream) return;             // the static pictures remain
  const form = root.querySelector(".controls"), live = root.querySelector(".live-cards"), PAGE = 4;
  const control = (name) => form.elements[name];

  jbpoolUnpack(root.querySelector(".packed").textContent).then(({text}) => browse(text.cards, text.classes));

  function browse(cards, classes) {
    let first = 0;
    cards.sort((a, b) => (a.margin ?? 0) - (b.margin ?? 0) || a.graph - b.graph);
    for (const name of ["label", "predicted"]) control(name).append(...classes.map((word, i) => new Option(word, i)));
    for (const part of root.querySelectorAll(".of-classes")) part.hidden = !classes.length;
    const kinds = {
      all: () => true, correct: (card) => card.label === card.predicted, wrong: (card) => card.label !== card.predicted,
      uncertain: (card) => card.uncertain,
    };
    function chosen() {
      const kind = kinds[control("kind").value], is = (name, card) => ["", String(card[name])].includes(control(name).value);
      return cards.filter((card) => kind(card) && is("label", card) && is("predicted", card));
    }
    function draw(card) {
      const made = document.createElement("article"), title = document.createElement("h3"), words = document.createElement("p");
      made.innerHTML = card.svg;                                    // drawn and escaped by Python
      title.textContent = `Graph ${card.name}`;
      words.textContent = card.caption;
      if (classes.length) {
        const right = card.label === card.predicted, sign = document.createElement("strong");
        sign.className = right ? "right" : "wrong";
        sign.textContent = `${right ? "✓ correct" : "✗ wrong"}${card.uncertain ? ", uncertain" : ""}. `;
        words.prepend(sign);
        words.append(` Class: ${classes[card.label]}; predicted: ${classes[card.predicted]} (margin ${card.margin.toFixed(2)}).`);
      }
      made.prepend(title);
      made.append(words);
      return made;
    }
    function show() {
      const found = chosen();
      first = Math.max(0, Math.min(first, PAGE * Math.floor((found.length - 1) / PAGE)));
      live.replaceChildren(...found.slice(first, first + PAGE).map(draw));
      jbpoolTips(live);
      const last = Math.min(first + PAGE, found.length);
      control("count").value = found.length ? `${first + 1}–${last} of ${found.length}` : "none of the pictured graphs";
      control("back").disabled = first === 0;
      control("on").disabled = last >= found.length;
      for (const cell of document.querySelectorAll("[data-cell]")) {
        cell.classList.toggle("chosen", cell.dataset.cell === `${control("label").value},${control("predicted").value}`);
      }
    }
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => { first = 0; show(); });
    control("back").addEventListener("click", () => { first -= PAGE; show(); });
    control("on").addEventListener("click", () => { first += PAGE; show(); });
    document.addEventListener("click", (event) => {
      const cell = event.target.closest?.("[data-cell]");
      if (!cell) return;
      const [label, predicted] = cell.classList.contains("chosen") ? ["", ""] : cell.dataset.cell.split(",");
      Object.assign(control("label"), {value: label});
      Object.assign(control("predicted"), {value: predicted});
      control("kind").value = "all";
      first = 0;
      show();
      root.scrollIntoView({block: "nearest"});
    });
    form.hidden = live.hidden = false;
    root.querySelector(".static-cards").hidden = true;
    show();
    root.dataset.ready = "true";
  }
})();

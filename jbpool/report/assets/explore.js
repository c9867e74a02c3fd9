// The graph view: sigma draws, this file decides what is shown. Names from the data only ever become text nodes.
// Its independent parts are in explore_parts.js.
(() => {
  "use strict";
  const root = document.querySelector(".graph-view");
  if (!root) return;
  const find = (selector) => root.querySelector(selector);

  start().catch((error) => why(`The interactive view could not start (${error.message}); this is the static picture.`));

  function why(text) {
    find(".explorer").hidden = true;
    find(".static").hidden = false;
    find(".why").textContent = text;
    find(".why").hidden = false;
  }

  async function start() {
    const missing = jbpoolParts.missing();
    if (missing) return why(`${missing}; this is the static picture.`);
    const {text, arrays} = await jbpoolUnpack(find(".packed").textContent);
    explore(text, arrays);
  }

  function explore(text, arrays) {
    const {Graph, Sigma} = globalThis.jbpoolSigma;
    const {cluster, degree, source} = arrays;
    const count = cluster.length, confidence = arrays.confidence, label = arrays.label;
    const ids = text.ids ?? Array.from(arrays.id, String);
    const number = new Intl.NumberFormat("en");
    const share = (node) => confidence[node] / 10000;
    const clusterName = (k) => (text.clusters[k].name === "-1" ? "in no cluster" : `cluster ${text.clusters[k].name}`);
    const className = (c) => (c < text.classes.length ? text.classes[c].name : "no label");
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const state = {mode: "cluster", only: null, picked: null, hovered: null, near: null};

    // ------------------------------------------------------------ the graph
    const graph = jbpoolParts.graph(new Graph({multi: false, type: "undirected"}), arrays, ids, root.clientWidth);

    // ------------------------------------------------------------ colours
    const {shade, mark, scale, mix, neutral, faint} = jbpoolParts.colours(text.palette, dark);
    const many = Math.max(0.3, Math.min(1, Math.sqrt(8000 / Math.max(source.length, 1))));   // many edges are paler
    const lowest = confidence ? confidence.reduce((one, other) => Math.min(one, other), 10000) / 10000 : 0;
    const stretched = (node) => (share(node) - lowest) / Math.max(1 - lowest, 1e-9);
    function colour(node) {
      if (state.mode === "confidence") return scale(stretched(node));
      if (state.mode === "class") return label[node] < text.classes.length ? shade(label[node]) : faint();
      return shade(cluster[node]);
    }
    let kinds = ["circle"];                                             // of discs, by mark
    const kind = (node) => kinds[state.mode === "confidence" ? 0 : mark((state.mode === "class" ? label : cluster)[node])] ?? "circle";

    // ------------------------------------------------------------ what is shown
    const form = find(".controls"), control = (name) => form.elements[name];
    function passes(node) {
      if (confidence) {
        const limit = Number(control("threshold").value);
        if (control("side").value === "least" ? share(node) < limit : share(node) > limit) return false;
      }
      return !state.only || (state.only.kind === "class" ? label : cluster)[node] === state.only.value;
    }
    // A pointer that moves over a large graph must not redraw all of it: sigma itself marks the node below it.
    const large = count + source.length > 12000;
    const focused = () => state.picked ?? (large ? null : state.hovered);
    let shown = new Uint8Array(count).fill(1);
    function update(indexed = true) {                                   // false: nodes have other kinds of discs
      let visible = 0;
      for (let node = 0; node < count; node++) visible += shown[node] = passes(node) ? 1 : 0;
      const focus = focused();
      state.near = focus === null ? null : new Set([focus, ...graph.neighbors(focus).map(Number)]);
      find(".status").textContent = `${number.format(visible)} of ${number.format(count)} nodes`;
      renderer.refresh({skipIndexation: indexed});
    }
    function nodeReducer(key, data) {
      const node = Number(key), out = {...data, color: colour(node), type: kind(node), zIndex: 1};
      if (!shown[node] && node !== state.picked) return {...out, color: faint(), label: "", zIndex: 0, size: data.size * 0.7};
      if (state.near && !state.near.has(node)) return {...out, color: faint(), label: "", zIndex: 0};
      if (state.mode === "confidence") out.zIndex = 1 + 9 * (1 - share(node));
      if (node === state.picked || node === state.hovered) {
        return {...out, size: data.size * 1.7, zIndex: 20, forceLabel: true, highlighted: true};
      }
      return out;
    }
    function edgeReducer(key, data) {
      const visible = (node) => shown[node] || node === state.picked, [a, b] = graph.extremities(key).map(Number);
      const inside = cluster[a] === cluster[b], out = {...data, size: 0.7, zIndex: inside ? 1 : 0};
      if (!control(inside ? "within" : "between").checked || !visible(a) || !visible(b)) return {...out, hidden: true};
      const focus = focused();
      if (focus !== null) {
        if (a !== focus && b !== focus) return {...out, hidden: true};
        return {...out, size: 1.6, color: inside ? shade(cluster[a]) : mix(neutral(), 0.7)};
      }
      if (inside) return {...out, color: state.mode === "cluster" ? mix(shade(cluster[a]), 0.42 * many) : mix(neutral(), 0.1 * many)};
      return {...out, color: mix(neutral(), 0.2 * many)};
    }

    // ------------------------------------------------------------ sigma
    find(".explorer").hidden = false;
    find(".static").hidden = true;
    const view = find(".view");
    const ink = () => getComputedStyle(root).color;
    const renderer = new Sigma(graph, view, {
      nodeReducer, edgeReducer, zIndex: true, allowInvalidContainer: true, labelFont: "system-ui, sans-serif",
      labelSize: 12, labelDensity: 0.5, labelRenderedSizeThreshold: 11, labelColor: {color: ink()},
      hideEdgesOnMove: source.length > 20000, minCameraRatio: 0.005, maxCameraRatio: 3, stagePadding: 26,
      defaultDrawNodeHover: jbpoolParts.drawName(ink, dark),
    });
    kinds = jbpoolParts.marked(renderer);
    dark.addEventListener("change", () => { renderer.setSetting("labelColor", {color: ink()}); update(); });

    // The wheel scrolls the page until the view has the focus.
    find(".frame").addEventListener("wheel", (event) => {
      if (!find(".frame").contains(document.activeElement)) event.stopPropagation();
    }, {capture: true});
    view.addEventListener("pointerdown", () => view.focus({preventScroll: true}));

    // ------------------------------------------------------------ hover and choice
    const {line, button} = jbpoolParts, card = find(".card");
    function facts(node) {
      const list = document.createElement("dl");
      list.append(...line("node", ids[node]), ...line("cluster", text.clusters[cluster[node]].name));
      if (confidence) list.append(...line("confidence", share(node).toFixed(3)));
      if (label) list.append(...line("class", className(label[node])));
      list.append(...line("degree", number.format(degree[node])));
      return list;
    }
    renderer.on("enterNode", ({node}) => {
      state.hovered = Number(node);
      card.replaceChildren(facts(state.hovered));
      card.hidden = false;
      view.style.cursor = "pointer";
      if (!large) update();
    });
    renderer.on("leaveNode", () => {
      state.hovered = null;
      card.hidden = true;
      view.style.cursor = "";
      if (!large) update();
    });
    renderer.on("clickNode", ({node}) => pick(Number(node)));
    renderer.on("clickStage", () => pick(null));
    function pick(node, move = false) {
      state.picked = node;
      const chosen = find(".chosen");
      if (node === null) {
        const hint = document.createElement("p");
        hint.className = "hint";
        hint.textContent = "Click a node, or find it by its id. Click a name below to isolate it.";
        chosen.replaceChildren(hint);
      } else {
        const around = graph.neighbors(node).map(Number), inside = around.filter((o) => cluster[o] === cluster[node]);
        const summary = document.createElement("p");
        summary.textContent = `${number.format(inside.length)} of ${number.format(around.length)} neighbours shown are in the same cluster.`;
        const list = document.createElement("div");
        list.className = "neighbours";
        list.append(...around.slice(0, 24).map((other) => button(ids[other], () => pick(other, true), shade(cluster[other]), mark(cluster[other]))));
        chosen.replaceChildren(facts(node), summary, list, button("clear", () => pick(null)));
        if (move) go(node);
      }
      update();
    }
    function go(node) {
      const {x, y} = renderer.getNodeDisplayData(node);
      const ratio = Math.min(renderer.getCamera().ratio, Math.max(0.1, Math.min(1, 18 / Math.sqrt(count))));
      renderer.getCamera().animate({x, y, ratio}, {duration: calm() ? 0 : 350});
    }
    const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

    // ------------------------------------------------------------ controls
    const box = control("find"), places = new Map(ids.map((id, node) => [id, node]));
    function search(word) {
      const wanted = word.trim().toLowerCase();
      if (!wanted) return pick(null);
      const node = places.get(word.trim()) ?? ids.findIndex((id) => id.toLowerCase().startsWith(wanted));
      if (node >= 0) pick(node, true);
      else find(".status").textContent = `No node ${word.trim()}${text.sampled ? " among those shown" : ""}.`;
    }
    box.addEventListener("input", (event) => {
      if (!box.value.trim()) pick(null);
      if (event.inputType !== "insertText" && places.has(box.value)) return search(box.value);
      const wanted = box.value.trim().toLowerCase(), options = [];
      for (let node = 0; wanted && node < count && options.length < 8; node++) {
        if (ids[node].toLowerCase().includes(wanted)) options.push(new Option(ids[node], ids[node]));
      }
      find("datalist").replaceChildren(...options);
    });
    box.addEventListener("keydown", (event) => { if (event.key === "Enter") search(box.value); });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => {
      if (event.target === box) return;
      if (event.target.name === "colour") {
        state.mode = control("colour").value;
        state.only = null;
        drawLegend();
      }
      if (event.target.name === "side") control("threshold").value = control("side").value === "least" ? 0 : 1;
      drawLimit();
      update(event.target.name !== "colour");
    });
    // The threshold, the share of nodes on its side, and how many of them are right: by their confidence, and where
    // classes are known, in fact.
    function drawLimit() {
      if (!confidence) return;
      const limit = Number(control("threshold").value), least = control("side").value === "least";
      const percent = (part, all) => `${Math.round(100 * part / all)} %`;
      let some = 0, expected = 0, labelled = 0, right = 0;
      for (let node = 0; node < count; node++) {
        if (least ? share(node) < limit : share(node) > limit) continue;
        some += 1;
        expected += share(node);
        if (label && label[node] < text.classes.length) {
          labelled += 1;
          right += text.matched[cluster[node]] === label[node];
        }
      }
      let words = `${limit.toFixed(2)}: ${percent(some, count)} of the nodes`;
      if (labelled) words += `; ${percent(right, labelled)} of them in the cluster of their class, ${percent(expected, some)} expected`;
      else if (some) words += `; ${percent(expected, some)} of them expected to be right`;
      control("limit").value = words;
    }
    const camera = renderer.getCamera();
    const moves = {
      in: () => camera.animatedZoom({duration: calm() ? 0 : 200}),
      out: () => camera.animatedUnzoom({duration: calm() ? 0 : 200}),
      all: () => camera.animatedReset({duration: calm() ? 0 : 200}),
    };
    find(".zoom").addEventListener("click", (event) => moves[event.target.dataset.do]?.());
    view.addEventListener("keydown", (event) => {
      const {x, y, ratio} = camera.getState(), step = 0.12 * ratio;
      const keys = {
        ArrowLeft: {x: x - step}, ArrowRight: {x: x + step}, ArrowUp: {y: y + step}, ArrowDown: {y: y - step},
      };
      if (keys[event.key]) camera.setState(keys[event.key]);
      else if (event.key === "+" || event.key === "=") moves.in();
      else if (event.key === "-") moves.out();
      else if (event.key === "0") moves.all();
      else if (event.key === "Escape") pick(null);
      else return;
      event.preventDefault();
    });

    // ------------------------------------------------------------ legend and names in the picture
    function groups() {
      return state.mode === "class" ? text.classes.map((group) => group.name) : text.clusters.map((_, k) => clusterName(k));
    }
    function drawLegend() {
      const kind = state.mode === "class" ? "class" : "cluster", rows = kind === "class" ? text.classes : text.clusters;
      find(".legend-title").textContent = kind === "class" ? "Classes" : "Clusters";
      const names = groups(), order = rows.map((_, k) => k);
      if (kind === "cluster") order.sort((a, b) => rows[b].size - rows[a].size);
      const buttons = order.map((k) => {
        const swatch = state.mode === "confidence" ? null : shade(k);
        const made = button(names[k], () => isolate(kind, k), swatch, mark(k));
        const size = document.createElement("span");
        size.className = "size";
        size.textContent = number.format(rows[k].size);
        made.append(size);
        made.dataset.group = k;
        made.setAttribute("aria-pressed", "false");
        return made;
      });
      find(".legend").replaceChildren(...buttons);
      if (state.mode === "confidence") {
        find(".legend").prepend(...jbpoolParts.scaleBar(scale, lowest));
      }
      nameGroups();
    }
    function isolate(kind, value) {
      const same = state.only?.kind === kind && state.only.value === value;
      state.only = same ? null : {kind, value};
      state.picked = null;
      for (const made of find(".legend").querySelectorAll("button")) {
        made.setAttribute("aria-pressed", String(!same && Number(made.dataset.group) === value));
      }
      update();
    }
    let tags = [];
    function nameGroups() {
      find(".names").replaceChildren();
      tags = [];
      if (state.mode === "confidence") return;
      const of = state.mode === "class" ? label : cluster, names = groups();
      const members = names.map(() => []);
      for (let node = 0; node < count; node++) members[of[node]]?.push(node);
      const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
      tags = members.map((nodes, k) => ({nodes, k})).filter(({nodes}) => nodes.length).sort((a, b) => b.nodes.length - a.nodes.length)
        .slice(0, 30).map(({nodes, k}) => {
          const tag = document.createElement("span");
          tag.textContent = state.mode === "class" ? names[k] : text.clusters[k].name;
          tag.style.borderColor = shade(k);
          find(".names").append(tag);
          return {tag, k, x: middle(nodes.map((n) => arrays.x[n])) / 65535, y: middle(nodes.map((n) => arrays.y[n])) / 65535};
        });
      placeNames();
    }
    function placeNames() {
      const taken = [];
      for (const {tag, k, x, y} of tags) {
        const place = renderer.graphToViewport({x, y}), wide = 7 * tag.textContent.length + 14;
        const free = taken.every((other) => Math.abs(other.x - place.x) > (wide + other.wide) / 2 || Math.abs(other.y - place.y) > 20);
        const wanted = !state.near && (!state.only || state.only.value === k);
        tag.hidden = !free || !wanted;
        tag.style.transform = `translate(${place.x}px,${place.y}px) translate(-50%,-50%)`;
        if (!tag.hidden) taken.push({...place, wide});
      }
    }
    renderer.on("afterRender", placeNames);

    // ------------------------------------------------------------ first picture
    for (const part of root.querySelectorAll(".of-class")) part.hidden = !label;
    for (const part of root.querySelectorAll(".of-confidence")) part.hidden = !confidence;
    if (confidence) {
      drawLimit();
      const order = Array.from(cluster, (_, node) => node).sort((a, b) => confidence[a] - confidence[b]).slice(0, 15);
      find(".uncertain ol").replaceChildren(...order.map((node) => {
        const item = document.createElement("li");
        item.append(button(ids[node], () => pick(node, true), shade(cluster[node]), mark(cluster[node])), ` ${share(node).toFixed(3)}`);
        return item;
      }));
    }
    drawLegend();
    update(false);
    root.dataset.ready = Math.round(performance.now());                              // milliseconds since the page was opened
    globalThis.jbpoolView = {graph, renderer, state, pick, confidence: share};
  }
})();

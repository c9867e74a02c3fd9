// Independent parts of the graph view: colours, elements of the page, what the browser must offer.
globalThis.jbpoolParts = {
  // Why the view cannot start in this browser, or null.
  missing() {
    if (!globalThis.DecompressionStream) {
      return "This browser is too old for the interactive view (no DecompressionStream)";
    }
    const canvas = document.createElement("canvas");
    const context = canvas.getContext("webgl2") || canvas.getContext("webgl");
    if (!context) return "The interactive view needs WebGL, which this browser does not offer";
    context.getExtension("WEBGL_lose_context")?.loseContext();
    return null;
  },

  // All nodes and edges; nodes of high degree are larger, and a phone has less room.
  graph(graph, {x, y, degree, source, target}, ids, width) {
    const count = ids.length, most = Math.log1p(degree.reduce((one, other) => Math.max(one, other), 1));
    const base = (count <= 400 ? 6 : count <= 4000 ? 3.4 : count <= 10000 ? 2.2 : 1.7) * Math.sqrt(Math.min(1, width / 760));
    for (let node = 0; node < count; node++) {
      const size = base * (0.75 + 0.6 * Math.log1p(degree[node]) / most);
      graph.addNode(node, {x: x[node] / 65535, y: y[node] / 65535, size, label: ids[node]});
    }
    for (let edge = 0; edge < source.length; edge++) graph.mergeEdge(source[edge], target[edge]);
    return graph;
  },

  // Colours of groups, of values between 0 and 1, and mixtures with the ground, which depends on light or dark mode.
  colours(palette, dark) {
    const low = [213, 72, 28], middle = [176, 156, 146], high = [31, 111, 181];      // safe for colour-blind readers
    function scale(value) {
      const [from, to, part] = value < 0.5 ? [low, middle, 2 * value] : [middle, high, 2 * value - 1];
      return `rgb(${from.map((v, i) => Math.round(v + (to[i] - v) * part))})`;
    }
    // Opaque mixtures: sigma does not blend translucent lines with a dark ground.
    const ground = () => (dark.matches ? [17, 19, 23] : [246, 247, 249]);
    const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    const mixtures = new Map();
    function mix(hex, part) {
      const key = `${hex} ${part} ${dark.matches}`;
      if (!mixtures.has(key)) {
        const to = ground();
        mixtures.set(key, `rgb(${rgb(hex).map((v, i) => Math.round(to[i] + (v - to[i]) * part))})`);
      }
      return mixtures.get(key);
    }
    const neutral = () => (dark.matches ? "#e7eaee" : "#1d2127");
    const mark = (k) => Math.floor(k / palette.length) % 4;             // what is cut out where colours repeat
    return {shade: (k) => palette[k % palette.length], mark, scale, mix, neutral, faint: () => mix(neutral(), 0.1)};
  },

  // Node programs for discs with a hole, a slit or a cross, made from that of plain discs; their names by mark.
  marked(renderer) {
    const classes = renderer.getSetting("nodeProgramClasses"), Disc = classes.circle;
    const inside = ["length(v_diffVector)<v_radius*.45", "abs(v_diffVector.y)<v_radius*.28"];
    inside.push(`${inside[1]}||abs(v_diffVector.x)<v_radius*.28`);
    const made = inside.map((cut) => class extends Disc {
      getDefinition() {
        const definition = super.getDefinition(), last = "gl_FragColor = mix(v_color, transparent, t);";
        const source = definition.FRAGMENT_SHADER_SOURCE.replace(last, `if(${cut})t=1.0;${last}`);
        return {...definition, FRAGMENT_SHADER_SOURCE: source};
      }
    });
    renderer.setSetting("nodeProgramClasses", {...classes, hole: made[0], slit: made[1], cross: made[2]});
    return ["circle", "hole", "slit", "cross"];
  },

  // The colours of values from the lowest to 1, and their ends.
  scaleBar(scale, lowest) {
    const bar = document.createElement("div"), ends = document.createElement("div");
    bar.className = "scale";
    bar.style.background = `linear-gradient(90deg,${[0, 0.25, 0.5, 0.75, 1].map(scale)})`;
    ends.className = "ends";
    ends.append(...[lowest.toFixed(2), "1.00"].map((end) => Object.assign(document.createElement("span"), {textContent: end})));
    return [bar, ends];
  },

  // How sigma draws the name of the node below the pointer.
  drawName: (ink, dark) => (context, data, settings) => {
    const size = settings.labelSize;
    context.beginPath();
    context.arc(data.x, data.y, data.size + 2.5, 0, 2 * Math.PI);
    context.lineWidth = 2;
    context.strokeStyle = ink();
    context.stroke();
    if (!data.label) return;
    context.font = `600 ${size}px ${settings.labelFont}`;
    const wide = context.measureText(data.label).width, x = data.x + data.size + 6;
    context.fillStyle = dark.matches ? "#22262de8" : "#ffffffe8";
    context.fillRect(x - 3, data.y - size * 0.8, wide + 6, size * 1.6);
    context.fillStyle = ink();
    context.fillText(data.label, x, data.y + size / 3);
  },

  // A term and its definition.
  line(name, value) {
    const term = document.createElement("dt"), definition = document.createElement("dd");
    term.textContent = name;
    definition.append(value);
    return [term, definition];
  },

  // A button with words, and the colour and mark of a group if given.
  button(words, action, swatch, mark = 0) {
    const made = document.createElement("button");
    made.type = "button";
    if (swatch) {
      const square = document.createElement("span");
      square.className = "swatch";
      square.style.backgroundColor = swatch;
      square.dataset.mark = mark;
      made.append(square);
    }
    const text = document.createElement("span");
    text.className = "words";
    text.textContent = made.title = words;
    made.append(text);
    made.addEventListener("click", action);
    return made;
  },
};

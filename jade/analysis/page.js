"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { runs, parameters, measures, values, results } = data;
  const numRuns = runs.id.length;
  const everyRun = Array.from({ length: numRuns }, (_, run) => run);
  const STEP = 50;
  const MOST_CURVES = 24;
  const STATUS_COLORS = {
    finished: "--good", stopped: "--warn", running: "--info", failed: "--bad", crashed: "--bad",
    preempted: "--warn", interrupted: "--warn", unknown: "--dim",
  };
  // Told apart by people who see colours differently, on white and on black.
  const PALETTE = ["#0b9d6d", "#e07b00", "#3b82f6", "#d6498f", "#8b6fe8", "#b08900", "#10a5b8", "#e5484d"];

  const state = {
    measure: data.chosen, sort: null, filter: "", hidden: new Set(), brushes: new Map(),
    selected: new Set(), numShown: STEP, numGroups: 20, columns: null,
  };

  // ---------------------------------------------------------------- small things

  const $ = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") element.className = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value != null) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child != null));
    return element;
  }

  function show(value) {
    if (value == null) return "";
    if (typeof value !== "number") return String(value);
    if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value);
    return String(Number(value.toPrecision(5)));
  }

  function showTime(seconds) {
    if (!isNumber(seconds)) return "";
    if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
    const minutes = seconds / 60;
    if (minutes < 60) return `${Math.floor(minutes)} min ${Math.round(seconds % 60)} s`;
    const hours = Math.floor(minutes / 60);
    if (hours < 48) return `${hours} h ${Math.round(minutes % 60)} min`;
    return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  }

  // Plotly reads some tags in what it shows.
  const untagged = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const plural = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
  const better = () => (measures[state.measure].mode === "max" ? -1 : 1);
  const result = (run) => (measures.length ? results[state.measure][run] : null);
  const endedWell = (run) => runs.status[run] === "finished" || runs.status[run] === "stopped";
  const colorOf = (run) => PALETTE[[...shownCurves()].indexOf(run) % PALETTE.length];

  function byResult(a, b) {
    const [x, y] = [result(a), result(b)];
    if (!isNumber(x) || !isNumber(y)) return (isNumber(y) ? 1 : 0) - (isNumber(x) ? 1 : 0) || a - b;
    return better() * (x - y) || a - b;
  }

  // ---------------------------------------------------------------- statistics over repetitions

  function spreadOf(group) {
    const counted = group.filter(endedWell).map(result).filter((value) => value != null);
    if (!counted.length || !counted.every(isNumber)) return null;
    const count = counted.length;
    const mean = counted.reduce((sum, value) => sum + value, 0) / count;
    const spread = { count, mean, low: mean, high: mean, std: null, margin: null };
    spread.lowest = Math.min(...counted);
    spread.highest = Math.max(...counted);
    if (count > 1) {
      spread.std = Math.sqrt(counted.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (count - 1));
      spread.margin = (data.quantiles[count - 1] * spread.std) / Math.sqrt(count);
      spread.low -= spread.margin;
      spread.high += spread.margin;
    }
    return spread;
  }

  function rankGroups() {
    const ranked = data.groups.map((group) => ({ group, spread: spreadOf(group), isTied: false }));
    const measured = ranked.filter((item) => item.spread);
    measured.sort((a, b) => better() * (a.spread.mean - b.spread.mean));
    measured.forEach((item, index) => {
      const former = measured[index - 1];
      const isEqual = former && former.spread.mean === item.spread.mean;
      item.place = isEqual ? former.place : index + 1;
      const best = measured[0].spread;
      item.isTied = index > 0 && item.spread.low <= best.high && best.low <= item.spread.high;
    });
    if (measured.length) measured[0].isTied = measured.some((item) => item.isTied);
    return [...measured, ...ranked.filter((item) => !item.spread)];
  }

  function showMean(spread) {
    if (spread.margin == null) return show(spread.mean);
    if (!spread.margin) return `${show(spread.mean)} ± 0`;
    const wanted = spread.mean ? 2 - Math.floor(Math.log10(Math.abs(spread.mean))) : 0;
    const decimals = Math.max(1 - Math.floor(Math.log10(spread.margin)), wanted);
    if (decimals > 8 || Math.abs(spread.mean) >= 1e7) return `${show(spread.mean)} ± ${Number(spread.margin.toPrecision(2))}`;
    const digits = Math.max(decimals, 0);
    return `${spread.mean.toFixed(digits)} ± ${spread.margin.toFixed(digits)}`;
  }

  // ---------------------------------------------------------------- which runs are shown

  const plainName = (text) => String(text).toLowerCase().replace(/[\s_]/g, "");
  const columnsByName = new Map();
  const addName = (name, cells) => { if (!columnsByName.has(plainName(name))) columnsByName.set(plainName(name), cells); };
  parameters.forEach((parameter, place) => { addName(parameter.label, values[place]); addName(parameter.key, values[place]); });
  for (const name of ["status", "seed", "id", "name", "host", "seconds", "iterations", "epochs"]) addName(name, runs[name]);
  addName("run", runs.id);
  measures.forEach((measure, place) => addName(measure.label, results[place]));

  const haystacks = everyRun.map((run) =>
    [runs.id[run], runs.name[run], runs.status[run], runs.host[run], runs.note[run], runs.reason[run], ...values.map((cells) => show(cells[run]))]
      .join("\n").toLowerCase());

  function compare(cell, operator, wanted) {
    if (operator === "=" || operator === "!=") {
      const isNumeric = wanted.trim() !== "" && isNumber(Number(wanted)) && isNumber(cell);
      const isEqual = isNumeric ? cell === Number(wanted) : show(cell).toLowerCase() === wanted.toLowerCase();
      return isEqual === (operator === "=");
    }
    if (!isNumber(cell)) return false;
    const limit = Number(wanted);
    return { "<": cell < limit, ">": cell > limit, "<=": cell <= limit, ">=": cell >= limit }[operator];
  }

  function parseFilter(text) {
    return text.trim().split(/\s+/).filter(Boolean).map((word) => {
      const match = /^([^<>=!]+)(<=|>=|!=|<|>|=)(.+)$/.exec(word);
      const cells = match && columnsByName.get(plainName(match[1]));
      if (cells) return (run) => compare(cells[run], match[2], match[3]);
      const wanted = word.toLowerCase();
      return (run) => haystacks[run].includes(wanted);
    });
  }

  function passing() {
    const tests = parseFilter(state.filter);
    return everyRun.filter((run) =>
      !state.hidden.has(runs.status[run]) && tests.every((test) => test(run)) && parallel.admits(run));
  }

  function shownCurves() {
    if (state.selected.size) return [...state.selected].slice(0, MOST_CURVES);
    return [...shown].sort(byResult).filter((run) => isNumber(result(run))).slice(0, 5);
  }

  // ---------------------------------------------------------------- heading and cards

  function drawHeading() {
    document.title = data.title;
    $("title").textContent = data.title;
    $("subtitle").textContent = `${plural(numRuns, "run")}, ${plural(data.groups.length, "configuration")} · ${data.generated}`;
    $("footer").textContent = `Made by jade analyze ${data.version} from ${data.sources.join(", ")}. Intervals: 95 %, Student's t; runs that did not end well are listed, but not counted in means.`;
    const chooser = $("measure");
    const kinds = { test: "Tests", last: "Last value", best: "Best value on the way" };
    for (const [kind, label] of Object.entries(kinds)) {
      const group = make("optgroup", { label });
      measures.forEach((measure, place) => {
        if (measure.kind === kind) group.append(make("option", { value: place }, `${measure.label} ${measure.mode === "max" ? "↑" : "↓"}`));
      });
      if (group.children.length) chooser.append(group);
    }
    chooser.value = state.measure;
    chooser.disabled = !measures.length;
    chooser.addEventListener("change", () => {
      state.measure = Number(chooser.value);
      state.sort = null;
      state.columns = null;
      parallel.rebuild();
      const metric = data.curveMetrics.indexOf(measures[state.measure].name);
      if (metric >= 0) $("curve-metric").value = metric;
      drawColumns();
      update();
    });
  }

  function describe(run) {
    return parameters.map((parameter, place) => [parameter.label, values[place][run]])
      .filter(([, value]) => value != null).map(([label, value]) => `${label} ${show(value)}`).join(", ");
  }

  function card(title, ...children) {
    return make("div", { class: "card" }, make("h3", {}, title), ...children);
  }

  function drawCards() {
    const place = $("cards");
    place.replaceChildren();
    if (measures.length) {
      const measure = measures[state.measure];
      const best = everyRun.filter((run) => endedWell(run) && isNumber(result(run))).sort(byResult)[0];
      if (best !== undefined) {
        const equal = everyRun.filter((run) => endedWell(run) && result(run) === result(best)).length;
        place.append(card(`Best run · ${measure.label}`,
          make("div", { class: "big", id: "best-value" }, show(result(best)), " ", make("small", {}, measure.mode === "max" ? "more is better" : "less is better")),
          make("p", {}, make("button", { class: "link", type: "button", onclick: () => openDetails(best) }, runs.id[best]), equal > 1 ? ` and ${equal - 1} with the same value` : ""),
          make("p", {}, describe(best))));
      }
      const ranked = rankGroups().filter((item) => item.spread);
      if (ranked.length) {
        const top = ranked[0];
        const tied = ranked.filter((item) => item.isTied).length;
        let verdict = "ahead of all others";
        if (tied) verdict = `${tied} configurations are tied: their intervals overlap`;
        else if (top.spread.margin == null) verdict = "run once: repetitions would tell how sure that is";
        place.append(card("Best configuration",
          make("div", { class: "big" }, showMean(top.spread)),
          make("p", {}, `mean of ${plural(top.spread.count, "run")}; ${verdict}`), make("p", {}, describe(top.group[0]))));
      }
    }
    const counts = new Map();
    for (const status of runs.status) counts.set(status, (counts.get(status) || 0) + 1);
    const ordered = [...counts].sort((a, b) => b[1] - a[1]);
    const stack = make("div", { class: "stack" });
    for (const [status, count] of ordered) {
      const part = make("span", { title: `${count} ${status}` });
      part.style.flex = count;
      part.style.background = `var(${STATUS_COLORS[status] || "--dim"})`;
      stack.append(part);
    }
    place.append(card("Runs", make("div", { class: "big" }, numRuns.toLocaleString("en")), stack,
      make("p", {}, ordered.map(([status, count]) => `${count} ${status}`).join(", "))));
    const seconds = runs.seconds.filter(isNumber);
    if (seconds.length) {
      const total = seconds.reduce((sum, value) => sum + value, 0);
      const middle = [...seconds].sort((a, b) => a - b)[Math.floor(seconds.length / 2)];
      const hosts = new Set(runs.host.filter(Boolean));
      place.append(card("Time", make("div", { class: "big" }, showTime(total)),
        make("p", {}, `all runs together; the median took ${showTime(middle)}`),
        hosts.size > 1 ? make("p", {}, `on ${hosts.size} machines`) : null));
    }
  }

  // ---------------------------------------------------------------- table of runs

  function allColumns() {
    const columns = [{ name: "run", cell: (run) => runs.id[run], fixed: true }];
    const add = (name, cell, options = {}) => columns.push({ name, cell, ...options });
    if (runs.name.some(Boolean)) add("name", (run) => runs.name[run]);
    add("status", (run) => runs.status[run]);
    measures.forEach((measure, place) => {
      if (place === state.measure) add(measure.label, (run) => results[place][run], { isResult: true, mode: measure.mode });
    });
    parameters.forEach((parameter, place) => add(parameter.label, (run) => values[place][run], { title: parameter.key }));
    add("seed", (run) => runs.seed[run]);
    add("time", (run) => runs.seconds[run], { show: showTime });
    let numMore = 0;
    measures.forEach((measure, place) => {
      if (place !== state.measure) add(measure.label, (run) => results[place][run], { isExtra: measure.kind === "best" || numMore++ >= 4, mode: measure.mode });
    });
    add("iterations", (run) => runs.iterations[run], { isExtra: true });
    add("epochs", (run) => runs.epochs[run], { isExtra: true });
    add("host", (run) => runs.host[run], { isExtra: true });
    add("note", (run) => runs.note[run], { isExtra: !runs.note.some(Boolean) });
    for (const column of columns) column.isNumeric = everyRun.some((run) => typeof column.cell(run) === "number");
    return columns.filter((column) => column.fixed || everyRun.some((run) => column.cell(run) != null));
  }

  let columns = [];

  function drawColumns() {
    columns = allColumns();
    if (!state.columns) state.columns = new Set(columns.filter((column) => !column.isExtra).map((column) => column.name));
    $("columns").lastElementChild.replaceChildren(...columns.filter((column) => !column.fixed).map((column) => {
      const box = make("input", { type: "checkbox", onchange: () => {
        if (box.checked) state.columns.add(column.name);
        else state.columns.delete(column.name);
        drawTable();
      } });
      box.checked = state.columns.has(column.name);
      return make("label", {}, box, column.name);
    }));
  }

  function sorted(indices) {
    const column = state.sort && columns.find((item) => item.name === state.sort.name);
    if (!column) return [...indices].sort(byResult);
    const sign = state.sort.isDescending ? -1 : 1;
    return [...indices].sort((a, b) => {
      const [x, y] = [column.cell(a), column.cell(b)];
      if (x == null || y == null) return (x == null) - (y == null) || a - b;
      if (typeof x === "number" && typeof y === "number") return sign * (x - y) || a - b;
      return sign * String(x).localeCompare(String(y), "en", { numeric: true }) || a - b;
    });
  }

  function drawTable() {
    const chosen = columns.filter((column) => column.fixed || state.columns.has(column.name));
    const head = make("tr", {}, make("th", {}, make("span", { title: "Selected runs have their curves drawn" }, "")));
    for (const column of chosen) {
      let direction = "none";
      if (state.sort && state.sort.name === column.name) direction = state.sort.isDescending ? "descending" : "ascending";
      else if (!state.sort && column.isResult) direction = column.mode === "max" ? "descending" : "ascending";
      const kind = `${column.isNumeric ? "number" : ""} ${column.isResult ? "result" : ""}`;
      head.append(make("th", { "aria-sort": direction, class: kind, title: column.title },
        make("button", { type: "button", onclick: () => sortBy(column, direction) }, column.name)));
    }
    document.querySelector("#runs thead").replaceChildren(head);
    const ordered = sorted(shown);
    const rows = ordered.slice(0, state.numShown).map((run) => makeRow(run, chosen));
    document.querySelector("#runs tbody").replaceChildren(...rows);
    if (!rows.length) {
      document.querySelector("#runs tbody").append(make("tr", {}, make("td", { colspan: chosen.length + 1, class: "empty" }, "No run passes the filter.")));
    }
    $("count").textContent = shown.length === numRuns ? String(numRuns) : `${shown.length} of ${numRuns}`;
    const rest = ordered.length - state.numShown;
    $("more").hidden = rest <= 0;
    $("more").textContent = `Show ${Math.min(rest, 4 * STEP)} more of ${rest}`;
    $("deselect").hidden = !state.selected.size;
  }

  function sortBy(column, direction) {
    const first = column.isNumeric && column.mode === "max";
    const isDescending = direction === "none" ? first : direction === "ascending";
    state.sort = { name: column.name, isDescending };
    state.numShown = STEP;
    drawTable();
  }

  function makeRow(run, chosen) {
    const box = make("input", { type: "checkbox", "aria-label": `Select ${runs.id[run]}`, onchange: () => select(run, box.checked) });
    box.checked = state.selected.has(run);
    if (box.checked) box.style.accentColor = colorOf(run);
    const row = make("tr", { "data-run": runs.id[run] }, make("td", {}, box));
    for (const column of chosen) {
      const value = column.cell(run);
      const cell = make("td", { class: `${column.isNumeric ? "number" : "cut"} ${column.isResult ? "result" : ""}` });
      if (column.fixed) cell.append(make("button", { class: "link", type: "button", onclick: () => openDetails(run) }, runs.id[run]));
      else if (column.name === "status") cell.append(dot(value), ` ${value}`);
      else cell.textContent = (column.show || show)(value);
      if (!column.isNumeric && value != null) cell.title = value;
      row.append(cell);
    }
    return row;
  }

  function dot(status) {
    const element = make("span", { class: "dot" });
    element.style.background = `var(${STATUS_COLORS[status] || "--dim"})`;
    return element;
  }

  function select(run, isSelected) {
    if (isSelected) state.selected.add(run);
    else state.selected.delete(run);
    drawTable();
    drawCurves();
  }

  function openDetails(run) {
    const facts = [
      ["run", runs.id[run]], ["name", runs.name[run]], ["status", runs.status[run]], ["reason", runs.reason[run]],
      ["note", runs.note[run]], ["started", runs.started[run]], ["took", showTime(runs.seconds[run])],
      ["iterations", show(runs.iterations[run])], ["epochs", show(runs.epochs[run])], ["host", runs.host[run]],
      ["seed", show(runs.seed[run])], ...parameters.map((parameter, place) => [parameter.key, show(values[place][run])]),
      ...measures.map((measure, place) => [measure.label, show(results[place][run])]),
      ["directory", runs.path[run]], ["W&B", runs.wandb[run]],
    ];
    const list = make("dl");
    for (const [name, value] of facts) if (value) list.append(make("dt", {}, name), make("dd", {}, value));
    $("details").lastElementChild.replaceChildren(list);
    $("details").showModal();
  }

  function drawStatuses() {
    const found = [...new Set(runs.status)].sort();
    if (found.length < 2) return;
    $("statuses").replaceChildren(...found.map((status) => {
      const button = make("button", { type: "button", "aria-pressed": "true", onclick: () => {
        if (state.hidden.has(status)) state.hidden.delete(status);
        else state.hidden.add(status);
        button.setAttribute("aria-pressed", String(!state.hidden.has(status)));
        update();
      } }, dot(status), status);
      return button;
    }));
  }

  // ---------------------------------------------------------------- axes of parameters

  // The place of each run on an axis from 0 to 1; a value that is missing has none.
  function makeAxis(label, cells) {
    const known = cells.filter((value) => value != null);
    if (known.length && known.every(isNumber)) {
      const low = known.reduce((a, b) => Math.min(a, b));
      const high = known.reduce((a, b) => Math.max(a, b));
      const distinct = new Set(known);
      const isLog = isLogarithmic(known, low, high);
      const scale = isLog ? Math.log10 : (value) => value;
      const [from, to] = [scale(low), scale(high)];
      const at = (value) => (to > from ? (scale(value) - from) / (to - from) : 0.5);
      const ticks = distinct.size <= 6 ? [...distinct] : niceTicks(low, high, isLog);
      return { label, isLog, places: cells.map((v) => (isNumber(v) ? at(v) : null)), ticks: ticks.map((v) => ({ place: at(v), text: show(v) })) };
    }
    const names = [...new Set(known.map(show))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const at = new Map(names.map((name, place) => [name, names.length > 1 ? place / (names.length - 1) : 0.5]));
    const stride = Math.ceil(names.length / 12);
    return {
      label, isCategory: true, places: cells.map((v) => (v == null ? null : at.get(show(v)))),
      ticks: names.filter((_, place) => place % stride === 0).map((name) => ({ place: at.get(name), text: name.length > 14 ? `${name.slice(0, 13)}…` : name })),
    };
  }

  // Over a wide range, whichever scale has the middle value nearer to its middle.
  function isLogarithmic(known, low, high) {
    if (low <= 0 || high / low < 30) return false;
    const middle = [...known].sort((a, b) => a - b)[Math.floor(known.length / 2)];
    const plain = (middle - low) / (high - low);
    const logarithmic = Math.log(middle / low) / Math.log(high / low);
    return Math.abs(logarithmic - 0.5) < Math.abs(plain - 0.5);
  }

  function niceTicks(low, high, isLog) {
    if (low === high) return [low];
    if (isLog) {
      const ticks = [];
      for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; power += 1) ticks.push(10 ** power);
      return ticks.length > 1 ? ticks : [low, high];
    }
    const rough = (high - low) / 6;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const ticks = [];
    for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) ticks.push(Number(tick.toPrecision(12)));
    return ticks;
  }

  // Parallel coordinates on a canvas: needs no WebGL, and can be brushed with a finger.
  const parallel = (() => {
    const SPACE = "http://www.w3.org/2000/svg";
    const [TOP, BOTTOM, SIDE] = [46, 26, 56];
    let axes = [];
    const canvas = make("canvas");
    const svg = document.createElementNS(SPACE, "svg");

    function draw(tag, attributes, text) {
      const element = document.createElementNS(SPACE, tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      if (text !== undefined) element.textContent = text;
      return element;
    }

    function rebuild() {
      axes = parameters.map((parameter, place) => makeAxis(parameter.label, values[place]));
      if (measures.length) axes.push(makeAxis(measures[state.measure].label, results[state.measure]));
      for (const place of [...state.brushes.keys()]) if (place >= parameters.length) state.brushes.delete(place);
    }

    function admits(run) {
      for (const [place, [low, high]] of state.brushes) {
        const at = axes[place].places[run];
        if (at == null || at < low - 1e-9 || at > high + 1e-9) return false;
      }
      return true;
    }

    const size = () => ({ width: $("parallel").clientWidth, height: $("parallel").clientHeight });
    const xOf = (place) => SIDE + (place * (size().width - 2 * SIDE)) / Math.max(axes.length - 1, 1);
    const yOf = (at) => (at == null ? size().height - 8 : TOP + (1 - at) * (size().height - TOP - BOTTOM));

    function drawLines() {
      const { width, height } = size();
      const scale = window.devicePixelRatio || 1;
      canvas.width = width * scale;
      canvas.height = height * scale;
      const pen = canvas.getContext("2d");
      pen.scale(scale, scale);
      const isShown = new Set(shown);
      const xs = axes.map((_, place) => xOf(place));
      const path = (run) => {
        pen.beginPath();
        axes.forEach((axis, place) => {
          const y = yOf(axis.places[run]);
          if (!place) pen.moveTo(xs[0], y);
          else {
            const middle = (xs[place - 1] + xs[place]) / 2;
            pen.bezierCurveTo(middle, yOf(axes[place - 1].places[run]), middle, y, xs[place], y);
          }
        });
        pen.stroke();
      };
      pen.lineWidth = 1;
      pen.strokeStyle = css("--faded");
      const numFaded = numRuns - isShown.size;
      pen.globalAlpha = Math.min(1, Math.max(0.25, 300 / Math.max(numFaded, 1)));
      if (numFaded) for (const run of everyRun) if (!isShown.has(run)) path(run);
      pen.globalAlpha = 1;
      const last = measures.length ? axes[axes.length - 1].places : [];
      const isMax = measures.length && measures[state.measure].mode === "max";
      const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
      const alpha = Math.max(0.18, Math.min(0.85, 40 / Math.sqrt(shown.length * 20 + 1)));
      // The best are drawn last, on top of the others.
      for (const run of [...shown].sort(byResult).reverse()) {
        const good = last[run] == null ? null : isMax ? last[run] : 1 - last[run];
        pen.strokeStyle = good == null ? css("--faded") : shade(good, isDark, alpha);
        pen.lineWidth = state.selected.has(run) ? 3 : 1.3;
        path(run);
      }
    }

    // From a quiet blue-grey to a strong green, lighter or darker than the ground.
    function shade(good, isDark, alpha) {
      const share = good ** 1.6;
      const hue = 255 - 97 * share;
      const lightness = isDark ? 45 + 25 * share : 70 - 34 * share;
      return `hsla(${hue}, ${20 + 60 * share}%, ${lightness}%, ${Math.min(1, alpha + 0.35 * share)})`;
    }

    function drawAxes() {
      const { height } = size();
      svg.replaceChildren();
      axes.forEach((axis, place) => {
        const x = xOf(place);
        const group = draw("g", {});
        group.append(draw("line", { class: "axis", x1: x, x2: x, y1: TOP, y2: height - BOTTOM }));
        const isLast = place === axes.length - 1 && axes.length > 1;
        for (const tick of axis.ticks) {
          const label = draw("text", { x: isLast ? x + 7 : x - 7, y: yOf(tick.place) + 4, "text-anchor": isLast ? "start" : "end" }, tick.text);
          group.append(label);
        }
        if (axis.places.some((at) => at == null)) group.append(draw("text", { x, y: height - 4, "text-anchor": "middle" }, "none"));
        const name = axis.label.length > 20 ? `${axis.label.slice(0, 19)}…` : axis.label;
        const title = draw("text", { class: "title", x, y: place % 2 && axes.length > 7 ? 14 : 30, "text-anchor": "middle" }, name + (axis.isLog ? " (log)" : ""));
        title.append(draw("title", {}, axis.label));
        group.append(title);
        const brush = state.brushes.get(place);
        if (brush) group.append(draw("rect", { class: "brush", x: x - 7, width: 14, y: yOf(brush[1]) - 3, height: yOf(brush[0]) - yOf(brush[1]) + 6 }));
        const hit = draw("rect", { class: "hit", x: x - 22, width: 44, y: TOP - 10, height: height - TOP - BOTTOM + 20, "data-axis": axis.label });
        hit.addEventListener("pointerdown", (event) => startBrush(event, place));
        group.append(hit);
        svg.append(group);
      });
    }

    function startBrush(event, place) {
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      const atOf = (y) => Math.max(0, Math.min(1, 1 - (y - box.top - TOP) / (box.height - TOP - BOTTOM)));
      const first = event.clientY;
      let isPending = false;
      const move = (later) => {
        if (Math.abs(later.clientY - first) < 5) return;
        const ends = [atOf(first), atOf(later.clientY)].sort((a, b) => a - b);
        state.brushes.set(place, ends);
        if (isPending) return;
        isPending = true;
        requestAnimationFrame(() => { isPending = false; update({ quick: true }); });
      };
      const end = (later) => {
        window.removeEventListener("pointermove", move);
        window.removeEventListener("pointerup", end);
        window.removeEventListener("pointercancel", end);
        if (Math.abs(later.clientY - first) < 5) state.brushes.delete(place);
        state.numShown = STEP;
        update();
      };
      window.addEventListener("pointermove", move);
      window.addEventListener("pointerup", end);
      window.addEventListener("pointercancel", end);
    }

    function redraw() {
      if (!size().width || !axes.length) return;
      $("clear-brushes").hidden = !state.brushes.size;
      drawLines();
      drawAxes();
    }

    function start() {
      const place = $("parallel");
      place.style.minWidth = `${Math.max(axes.length * 92, 280)}px`;
      place.append(canvas, svg);
      new ResizeObserver(() => redraw()).observe(place);
    }

    return { rebuild, admits, redraw, start };
  })();

  // ---------------------------------------------------------------- plots

  let plotlyLoading = null;

  // Large, and not needed to see the first screen: run when a plot comes into view.
  function loadPlotly() {
    if (!plotlyLoading) {
      plotlyLoading = new Promise((resolve) => {
        const run = () => {
          const script = document.createElement("script");
          script.textContent = $("plotly-source").textContent;
          document.head.append(script);
          resolve(window.Plotly);
        };
        // Its source stands at the end of the page, which may still be on its way.
        if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => setTimeout(run, 0));
        else setTimeout(run, 0);
      });
    }
    return plotlyLoading;
  }

  const inView = new Set();
  const waiting = new Map();
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) { inView.delete(entry.target); continue; }
      inView.add(entry.target);
      const draw = waiting.get(entry.target);
      waiting.delete(entry.target);
      if (draw) loadPlotly().then((Plotly) => Plotly && draw(Plotly));
    }
  }, { rootMargin: "200px" });

  // Draw now if it can be seen, or else once it can; only the latest wish counts.
  function drawWhenSeen(element, draw) {
    if (inView.has(element)) loadPlotly().then((Plotly) => Plotly && draw(Plotly));
    else { waiting.set(element, draw); watcher.observe(element); }
  }

  function layout(more) {
    const axis = { gridcolor: css("--grid"), zeroline: false, linecolor: css("--line"), automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
      font: { color: css("--dim"), family: "system-ui, sans-serif", size: 12 },
      margin: { l: 56, r: 16, t: 34, b: 40 }, showlegend: false,
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--dim"), activecolor: css("--accent") },
      hoverlabel: { bgcolor: css("--surface"), bordercolor: css("--line"), font: { color: css("--ink") } },
      ...more, xaxis: { ...axis, ...more.xaxis }, yaxis: { ...axis, ...more.yaxis },
    };
  }

  const CONFIG = { displaylogo: false, responsive: true, modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] };

  let curveData = null;

  function curvesOf(metric) {
    if (!curveData) curveData = JSON.parse($("curve-data").textContent);
    return curveData[metric] || {};
  }

  function drawCurves() {
    const place = $("curves");
    if (!data.curveMetrics.length) {
      place.className = "empty";
      place.textContent = "No curves: no run here has a table of metrics (runs on W&B bring only their last values).";
      return;
    }
    drawWhenSeen(place, (Plotly) => {
      const metric = Number($("curve-metric").value);
      const curves = curvesOf(metric);
      const chosen = shownCurves();
      const traces = chosen.filter((run) => curves[run]).map((run) => ({
        x: curves[run][0], y: curves[run][1], name: untagged(runs.id[run]), mode: "lines", line: { color: colorOf(run), width: 2 },
        text: `${untagged(runs.id[run])}<br>${untagged(describe(run))}`, hovertemplate: "%{text}<br>%{x}: %{y}<extra></extra>",
      }));
      const missing = chosen.length - traces.length;
      const what = state.selected.size ? plural(state.selected.size, "selected run") : `The best ${traces.length} of the runs in the table; select others there`;
      const cut = state.selected.size > MOST_CURVES ? `, the first ${MOST_CURVES} drawn` : "";
      $("curves-note").textContent = what + cut + (missing ? `; ${missing} without this curve` : "") + (data.curveNote ? `. ${data.curveNote}` : "");
      Plotly.react(place, traces, layout({
        xaxis: { title: { text: "iteration" } },
        yaxis: { title: { text: untagged(data.curveMetrics[metric]) }, type: $("log-y").checked ? "log" : "linear" },
        showlegend: traces.length > 1 && window.innerWidth > 640, legend: { font: { size: 11 } },
      }), CONFIG);
    });
  }

  const scatterPlots = [];

  function drawScatter() {
    const place = $("scatter");
    if (!scatterPlots.length) {
      parameters.forEach((parameter, index) => {
        const plot = make("div", { class: "plot", "data-parameter": parameter.key });
        scatterPlots.push({ plot, index });
        place.append(make("figure", {}, make("figcaption", { title: parameter.key }, parameter.label), plot));
      });
    }
    if (!measures.length || !parameters.length) {
      place.className = "empty";
      place.textContent = parameters.length ? "No run has logged anything." : "The runs do not differ in any parameter.";
      return;
    }
    const isShown = new Set(shown);
    for (const { plot, index } of scatterPlots) {
      drawWhenSeen(plot, (Plotly) => {
        const measured = everyRun.filter((run) => isNumber(result(run)) && values[index][run] != null);
        const axis = makeAxis("", values[index]);
        const traces = [false, true].map((isChosen) => {
          const part = measured.filter((run) => isShown.has(run) === isChosen);
          return {
            x: part.map((run) => (axis.isCategory ? untagged(show(values[index][run])) : values[index][run])), y: part.map(result),
            customdata: part, text: part.map((run) => untagged(runs.id[run])), hovertemplate: "%{text}<br>%{x}: %{y}<extra></extra>",
            marker: { color: isChosen ? css("--accent") : css("--faded"), size: measured.length > 400 ? 4 : 6, opacity: isChosen ? 0.75 : 1 },
            ...(axis.isCategory
              ? { type: "box", boxpoints: "all", jitter: 0.6, pointpos: 0, fillcolor: "rgba(0,0,0,0)", line: { width: isChosen ? 1 : 0, color: css("--dim") }, hoveron: "points" }
              : { mode: "markers" }),
          };
        });
        const ticks = axis.isCategory ? { type: "category", categoryorder: "category ascending" } : axis.isLog ? { type: "log", dtick: 1, exponentformat: "power" } : { nticks: 6 };
        Plotly.react(plot, traces, layout({ xaxis: ticks, yaxis: {}, margin: { l: 50, r: 10, t: 8, b: 34 } }), { ...CONFIG, displayModeBar: false })
          .then((drawn) => {
            if (plot.dataset.isReady) return;
            plot.dataset.isReady = "yes";
            drawn.on("plotly_click", (event) => {
              const run = event.points[0].customdata;
              if (typeof run === "number") select(run, !state.selected.has(run));
            });
          });
      });
    }
  }

  // ---------------------------------------------------------------- the rest

  function drawRepetitions() {
    const hasResults = measures.length > 0;
    $("repetitions-panel").hidden = !hasResults;
    if (!hasResults) return;
    const ranked = rankGroups();
    const measured = ranked.filter((item) => item.spread);
    const largest = data.groups.reduce((most, group) => Math.max(most, group.length), 0);
    $("repetitions-note").textContent = largest > 1
      ? "Runs that differ only in their seed are one configuration. Configurations whose intervals overlap are tied."
      : "No configuration was repeated with another seed: nobody knows how much of a difference is chance.";
    const top = measured.slice(0, state.numGroups);
    const low = top.reduce((a, item) => Math.min(a, item.spread.low), Infinity);
    const high = top.reduce((a, item) => Math.max(a, item.spread.high), -Infinity);
    const at = (value) => (high > low ? (100 * (value - low)) / (high - low) : 50);
    const names = ["", measures[state.measure].label, "95 % interval", "n", ...parameters.map((parameter) => parameter.label), "std", "min", "max"];
    document.querySelector("#repetitions thead").replaceChildren(make("tr", {}, ...names.map((name) => make("th", {}, name))));
    const rows = ranked.slice(0, state.numGroups).map(({ group, spread, isTied, place }) => {
      const row = make("tr", { class: place === 1 || isTied ? "best" : "" });
      row.append(make("td", {}, spread ? `${place} ` : "–", isTied ? make("span", { class: "badge" }, "tie") : ""));
      const bar = make("span", { class: "interval" }, make("i"), make("b"));
      if (spread) {
        bar.firstChild.style.left = `${at(spread.low)}%`;
        bar.firstChild.style.width = `${at(spread.high) - at(spread.low)}%`;
        bar.lastChild.style.left = `${at(spread.mean)}%`;
      }
      const count = spread ? spread.count : 0;
      row.append(
        make("td", { class: "result" }, spread ? showMean(spread) : "–"), make("td", {}, spread ? bar : null),
        make("td", { title: group.map((run) => runs.id[run]).join(", ") }, count === group.length ? String(count) : `${count} of ${group.length}`),
        ...parameters.map((_, index) => make("td", { class: "cut" }, show(values[index][group[0]]))),
        ...["std", "lowest", "highest"].map((name) => make("td", {}, spread ? show(spread[name]) : "")));
      return row;
    });
    document.querySelector("#repetitions tbody").replaceChildren(...rows);
    const rest = ranked.length - state.numGroups;
    $("more-repetitions").hidden = rest <= 0;
    $("more-repetitions").textContent = `Show ${Math.min(rest, 100)} more of ${rest}`;
  }

  function drawImportance() {
    const found = data.importance;
    $("importance-note").textContent = found.note;
    $("importance").replaceChildren();
    if (!found.shares.length) return;
    const largest = Math.max(...found.shares.map(([, share]) => share), 1e-9);
    const bars = make("div", { class: "bars" });
    for (const [name, share] of found.shares) {
      const bar = make("div", { class: "bar" });
      bar.style.width = `${(100 * share) / largest}%`;
      bars.append(make("div", { class: "name" }, name), make("div", {}, bar), make("div", { class: "share" }, `${Math.round(100 * share)} %`));
    }
    $("importance").append(bars);
  }

  function drawPictures() {
    $("pictures-panel").hidden = !data.pictures.length;
    $("pictures").replaceChildren(...data.pictures.map(({ run, images }) => make("div", { class: "pictured" },
      make("h3", {}, make("button", { class: "link", type: "button", onclick: () => openDetails(run) }, runs.id[run]), ` ${describe(run)}`),
      make("div", {}, ...images.map((image) => make("figure", {}, make("img", { src: image.data, alt: image.name, loading: "lazy" }), make("figcaption", {}, image.name)))))));
  }

  function drawNotes() {
    $("notes-panel").hidden = !data.notes.length;
    $("notes").replaceChildren(...data.notes.map((note) => make("li", {}, note)));
  }

  // ---------------------------------------------------------------- together

  let shown = everyRun;

  function update({ quick = false } = {}) {
    shown = passing();
    parallel.redraw();
    drawTable();
    if (quick) return;
    drawCurves();
    drawScatter();
    drawRepetitions();
    drawCards();
  }

  function start() {
    drawHeading();
    drawStatuses();
    drawColumns();
    data.curveMetrics.forEach((name, place) => $("curve-metric").append(make("option", { value: place }, name)));
    const metric = measures.length ? data.curveMetrics.indexOf(measures[state.measure].name) : -1;
    if (metric >= 0) $("curve-metric").value = metric;
    parallel.rebuild();
    $("parallel-panel").hidden = !parameters.length;
    parallel.start();
    let timer = null;
    $("filter").addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => { state.filter = $("filter").value; state.numShown = STEP; update(); }, 120);
    });
    $("more").addEventListener("click", () => { state.numShown += 4 * STEP; drawTable(); });
    $("more-repetitions").addEventListener("click", () => { state.numGroups += 100; drawRepetitions(); });
    $("deselect").addEventListener("click", () => { state.selected.clear(); drawTable(); drawCurves(); });
    $("clear-brushes").addEventListener("click", () => { state.brushes.clear(); update(); });
    $("curve-metric").addEventListener("change", drawCurves);
    $("log-y").addEventListener("change", drawCurves);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => update());
    drawImportance();
    drawPictures();
    drawNotes();
    update();
    document.documentElement.dataset.ready = "yes";
  }

  start();
})();

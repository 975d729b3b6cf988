// The live page of `cacheunit watch --serve`. Every text of the server is inserted as text, never as HTML.
"use strict";

const ROW_HEIGHT = 46; // pixels of a row of the list, as in page.css
const MOST_EXPANDED = 200; // artifacts up to which everything in the list is expanded
const RETRY_MILLISECONDS = 2000;
const LINT_MILLISECONDS = 400; // lint waits until the author pauses

const find = (id) => document.getElementById(id);
const keyOf = (item) => `${item.prefix}\n${item.target}`;

/** Creates an element with a class, a text and children. */
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.filter((child) => child !== null));
  return element;
}

let state = null; // the last state of the server
let shown = null; // the key of the artifact whose text is shown
let compared = null; // the name of the comparison that the user chose
let followed = 0; // the number of the last change that was followed

// Requests

class NoAnswer extends Error {}

/** Returns the JSON at a path; null where the state of the server is another one meanwhile. */
async function get(path, query = {}) {
  try {
    const response = await fetch(`${path}?${new URLSearchParams(query)}`);
    if (response.ok) return await response.json();
    throw new NoAnswer(`${path}: ${response.status}`);
  } catch (error) {
    throw error instanceof NoAnswer ? error : new NoAnswer(`${path}: ${error}`);
  }
}

/** Waits for what asks the server; where that does not answer, the page says so. */
async function answered(promise) {
  try {
    return await promise;
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    showConnection("The server does not answer: what you see is its last state.");
    return null;
  }
}

function showConnection(message) {
  find("connection").hidden = !message;
  find("connection").textContent = message;
}

/** Listens to the server; the browser connects again by itself unless it is refused. */
function connect() {
  const events = new EventSource("events");
  events.addEventListener("state", () => refresh());
  events.onerror = () => {
    if (events.readyState !== EventSource.CLOSED) {
      showConnection("The server does not answer: what you see is its last state. Trying again.");
      return;
    }
    showConnection("The server was restarted: open the address that it printed.");
    setTimeout(connect, RETRY_MILLISECONDS); // another tab may have opened the new address
  };
}

let refreshing = false;
let isOld = false;

/** Gets the state, and once more where there is another one by then. */
async function refresh() {
  isOld = true;
  if (refreshing) return;
  refreshing = true;
  try {
    while (isOld) {
      isOld = false;
      const next = await answered(get("state"));
      if (!next || next.number === undefined) continue; // no answer, or the first build is not done
      showConnection("");
      await answered(show(next));
    }
  } finally {
    refreshing = false;
  }
}

// The state

async function show(next) {
  if (state && state.instance !== next.instance) followed = 0;
  state = next;
  find("project").textContent = state.project;
  document.title = `${state.faults.length ? "✗ " : ""}${state.project || "cacheunit"} · cacheunit watch`;
  showBuild();
  showFaults();
  showComparisons();
  showTargets();
  const edited = lastEdit();
  if (edited) {
    shown = keyOf(edited);
    reveal(edited.prefix);
  } else if (!shown || !state.rows.some((row) => keyOf(row) === shown)) {
    const first = comparison().items.find((item) => item.kind !== "removed") || state.rows.find((row) => row.units) || state.rows[0];
    shown = first ? keyOf(first) : null;
    if (first) reveal(first.prefix);
  }
  showList();
  await showArtifact(edited ? edited.token : null);
}

function showBuild() {
  const build = find("build");
  build.className = state.faults.length ? "bad" : "good";
  if (!state.faults.length) build.textContent = `ok: built at ${state.good_at} in ${state.milliseconds} ms`;
  else {
    const good = state.good_at ? `below: the last good build, at ${state.good_at}` : "no build without faults yet";
    build.textContent = `${count(state.faults.length, "fault")} since ${state.faults_since}; ${good}`;
  }
}

function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

function showFaults() {
  const items = state.faults.map((fault) =>
    make(
      "li",
      "",
      ...(fault.place ? [sourceLink(fault.path, fault.line, fault.place), ": "] : []),
      make("span", "error", fault.message),
      fault.hint ? make("div", "hint", `hint: ${fault.hint}`) : null,
    ),
  );
  find("faults").hidden = !items.length;
  find("faults").replaceChildren(make("ul", "", ...items));
}

/** Returns a link that opens a line of a source in the editor. */
function sourceLink(path, line, label, className = "places") {
  const link = make("a", className, label);
  link.href = sourceAddress(path, line);
  return link;
}

function sourceAddress(path, line) {
  const whole = path.replace(/[\ud800-\udfff]/gu, "\ufffd"); // a name that is no UTF-8 cannot be in an address
  const encoded = whole.split("/").map(encodeURIComponent).join("/");
  return (state.editor || "").replace("{path}", () => encoded).replace("{line}", line || 1);
}

// Comparisons

/** Returns the comparison that is shown: the user's choice, else the first one that has differences. */
function comparison() {
  const chosen = state.comparisons.find((item) => item.name === compared);
  return chosen || state.comparisons.find((item) => item.items.length) || state.comparisons[0];
}

function showComparisons() {
  const current = comparison().name;
  for (const input of document.querySelectorAll("#comparisons input"))
    input.parentElement.hidden = !state.comparisons.some((item) => item.name === input.value);
  for (const item of state.comparisons) {
    let input = find(`compare-${item.name}`);
    if (!input) {
      input = make("input");
      Object.assign(input, { type: "radio", name: "compare", id: `compare-${item.name}`, value: item.name });
      input.addEventListener("change", () => chooseComparison(item.name));
      find("comparisons").append(make("label", "", input, make("span")));
    }
    input.checked = item.name === current;
    input.nextSibling.textContent = item.title;
  }
  const { problem, summary, errors } = comparison();
  find("summary").textContent = problem || [summary, errors].filter(Boolean).join("; ");
}

function chooseComparison(name) {
  compared = name;
  showComparisons();
  showList();
  showDetails();
  paint();
}

/** Returns the difference to scroll to where the last save changed an artifact that was not followed yet. */
function lastEdit() {
  if (state.change === followed && followed) return null;
  const isFirst = !followed;
  followed = state.change;
  if (!find("follow").checked) return null;
  const items = (isFirst ? comparison() : state.comparisons[0]).items.filter((item) => item.kind !== "removed");
  return items.find((item) => keyOf(item) === shown) || items.find((item) => item.token !== null) || items[0] || null;
}

// The list

const collapsed = new Map(); // id of a group -> whether the user collapsed it
let nodes = []; // the rows of the list, those of collapsed groups left out
let active = 0; // the index of the row that has the keyboard

function showTargets() {
  const names = [...new Set(state.rows.map((row) => row.target))].sort();
  const select = find("target");
  const old = [...select.options].slice(1).map((option) => option.value);
  if (names.join("\n") === old.join("\n")) return;
  const value = select.value;
  select.replaceChildren(select.options[0], ...names.map((name) => make("option", "", name)));
  select.value = names.includes(value) ? value : "";
}

/** Returns the rows that pass the filters, those of removed artifacts too, each with its difference. */
function filteredRows() {
  const words = find("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const target = find("target").value;
  const kind = find("kind").value;
  const current = comparison();
  const differences = new Map(current.items.map((item) => [keyOf(item), item]));
  const removed = current.items.filter((item) => item.kind === "removed");
  return [...state.rows, ...removed]
    .map((row) => ({ row, difference: differences.get(keyOf(row)), isKnown: !current.problem }))
    .filter(
      ({ row, difference }) =>
        (!target || row.target === target) &&
        (!kind || (kind === "changed") === Boolean(difference)) &&
        words.every((word) => `${row.name} ${row.target}`.toLowerCase().includes(word)),
    );
}

/** Returns the groups and artifacts of the list in order: folder, prefix, and each variant for each target. */
function listNodes() {
  const rows = filteredRows();
  const isOpen = find("filter").value !== "" || rows.length <= MOST_EXPANDED;
  const folders = new Map();
  for (const item of rows) {
    const base = item.row.prefix.split("@")[0];
    const folder = base.includes("/") ? base.slice(0, base.lastIndexOf("/")) : "";
    if (!folders.has(folder)) folders.set(folder, new Map());
    const prefixes = folders.get(folder);
    if (!prefixes.has(base)) prefixes.set(base, []);
    prefixes.get(base).push(item);
  }
  const list = [];
  for (const [folder, prefixes] of sorted(folders)) {
    const isGroup = folder !== "" && prefixes.size > 1;
    if (isGroup) {
      const group = groupNode(`f ${folder}`, `${folder}/`, 1, [...prefixes.values()].flat(), isOpen);
      list.push(group);
      if (!group.expanded) continue;
    }
    for (const [base, items] of sorted(prefixes))
      list.push(...prefixNodes(base, isGroup ? folder.length + 1 : 0, isGroup ? 2 : 1, items, isOpen));
  }
  return list;
}

function sorted(map) {
  return [...map].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Returns the row of a prefix with one artifact, or a group of its variants and targets. */
function prefixNodes(base, cut, level, items, isOpen) {
  if (items.length === 1) return [{ level, item: items[0], label: items[0].row.name.slice(cut), target: items[0].row.target }];
  const group = groupNode(`p ${base}`, base.slice(cut), level, items, isOpen);
  if (!group.expanded) return [group];
  const hasTargets = new Set(items.map((item) => item.row.target)).size > 1;
  const children = items.map((item) => {
    const variant = item.row.name.slice(base.length);
    const { target } = item.row;
    return { level: level + 1, item, label: variant || target, target: variant && hasTargets ? target : "" };
  });
  return [group, ...children];
}

function groupNode(id, label, level, items, isOpen) {
  const expanded = collapsed.has(id) ? !collapsed.get(id) : isOpen;
  return { id, label, level, items, expanded };
}

function showList() {
  const current = nodes[active];
  nodes = listNodes();
  const selected = nodes.findIndex((node) => node.item && keyOf(node.item.row) === shown);
  const same = current && nodes.findIndex((node) => (node.id || node.label) === (current.id || current.label) && node.level === current.level);
  active = document.activeElement === find("list") && same >= 0 ? same : Math.max(0, selected);
  find("empty").hidden = nodes.length > 0;
  find("list").hidden = nodes.length === 0;
  find("rows").style.height = `${nodes.length * ROW_HEIGHT}px`;
  if (document.activeElement !== find("list")) bringIntoView(active);
  drawRows();
}

function bringIntoView(index) {
  const list = find("list");
  const top = index * ROW_HEIGHT;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + ROW_HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW_HEIGHT - list.clientHeight;
}

/** Draws the rows that are visible, and the one with the keyboard. */
function drawRows() {
  const list = find("list");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW_HEIGHT) - 5);
  const last = Math.min(nodes.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW_HEIGHT) + 5);
  const indexes = Array.from({ length: Math.max(0, last - first) }, (_, index) => first + index);
  if (nodes.length && (active < first || active >= last)) indexes.push(active);
  find("rows").replaceChildren(...indexes.map(rowElement));
  if (nodes.length) list.setAttribute("aria-activedescendant", `row-${active}`);
  else list.removeAttribute("aria-activedescendant");
}

function rowElement(index) {
  const node = nodes[index];
  const row = make("div", `row level-${node.level}`, make("div", "first", node.label), make("div", "second"));
  row.id = `row-${index}`;
  row.dataset.index = index;
  row.style.top = `${index * ROW_HEIGHT}px`;
  row.setAttribute("role", "treeitem");
  row.setAttribute("aria-level", node.level);
  const [first, second] = row.children;
  if (node.items) {
    row.classList.add("group");
    row.setAttribute("aria-expanded", node.expanded);
    const changed = node.items.filter((item) => item.difference).length;
    second.append(count(node.items.length, "artifact"), changed ? `, ${changed} changed` : "");
  } else {
    const { row: record } = node.item;
    row.title = `${record.name} for ${record.target}`;
    row.setAttribute("aria-selected", keyOf(record) === shown);
    if (node.target) first.append(make("span", "muted", ` ${node.target}`));
    second.append(...rowFacts(node.item));
  }
  if (index === active) row.classList.add("active");
  return row;
}

function rowFacts({ row, difference, isKnown }) {
  const word = difference ? (difference.kind === "changed" ? "changed" : difference.kind) : isKnown ? "same" : "?";
  const facts = [row.tokens];
  if (row.units !== null && row.units !== undefined) facts.push(count(row.units, "unit"));
  if (difference && difference.cost) facts.push(`cost ${difference.cost}`);
  if (row.budget) facts.push(`of ${row.budget.toLocaleString("en")}`);
  return [make("span", `state ${difference ? "changed" : "unknown"}`, word), ` · ${facts.join(" · ")}`];
}

/** Expands the groups around a prefix. */
function reveal(prefix) {
  const base = prefix.split("@")[0];
  if (base.includes("/")) collapsed.set(`f ${base.slice(0, base.lastIndexOf("/"))}`, false);
  collapsed.set(`p ${base}`, false);
}

function activate(index) {
  active = Math.max(0, Math.min(nodes.length - 1, index));
  bringIntoView(active);
  drawRows();
}

/** Shows the artifact of a row, or expands or collapses its group. */
function choose(index, expanded = null) {
  const node = nodes[index];
  active = index;
  if (!node) return;
  if (node.items) {
    collapsed.set(node.id, expanded === null ? node.expanded : !expanded);
    showList();
    activate(nodes.findIndex((other) => other.id === node.id));
  } else {
    shown = keyOf(node.item.row);
    drawRows();
    const { difference } = node.item;
    answered(showArtifact(difference ? difference.token : 0));
  }
}

function listKey(event) {
  const node = nodes[active];
  const page = Math.max(1, Math.floor(find("list").clientHeight / ROW_HEIGHT) - 1);
  const moves = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -nodes.length, End: nodes.length };
  if (event.key in moves) activate(active + moves[event.key]);
  else if (event.key === "Enter" || event.key === " ") choose(active);
  else if (event.key === "ArrowRight" && node && node.items) {
    if (node.expanded) activate(active + 1);
    else choose(active, true);
  } else if (event.key === "ArrowLeft" && node) {
    if (node.items && node.expanded) choose(active, false);
    else activate(nodes.slice(0, active).findLastIndex((other) => other.level < node.level));
  } else return;
  event.preventDefault();
}

// The artifact

let text = null; // the index of the text, with its key, its violations and the chunks that are loaded
let violations = []; // what lint found in the prefix that is shown
let lintTimer = 0;

function record() {
  return state.rows.find((row) => keyOf(row) === shown) || comparison().items.find((item) => keyOf(item) === shown);
}

function difference() {
  return comparison().items.find((item) => keyOf(item) === shown);
}

function showDetails() {
  const row = record();
  const change = difference();
  find("title").textContent = row ? `${row.name} for ${row.target}` : "No prefix is selected";
  const numbers = [];
  if (row) numbers.push(["tokens", change ? change.tokens : row.tokens]);
  if (row && row.units !== null && row.units !== undefined)
    numbers.push(["units", `${row.units.toLocaleString("en")}${row.rest ? ` + ${count(row.rest, "token")}` : ""}`]);
  if (row && row.padding) numbers.push(["padding", row.padding.toLocaleString("en")]);
  if (change && change.still_cached) numbers.push(["still cached", change.still_cached], ["recomputed", change.recomputed]);
  if (change && change.cost) numbers.push(["one-time cost", change.cost]);
  if (change && change.running_cost) numbers.push(["per 1M requests", change.running_cost]);
  if (row && row.budget) numbers.push(["budget", row.budget.toLocaleString("en")]);
  find("numbers").replaceChildren(
    ...numbers.map(([name, value]) => make("div", "", make("dt", "", name), make("dd", "", value))),
  );
  showChange(change);
}

function showChange(change) {
  const parts = [];
  if (change) {
    const place = change.place ? [sourceLink(change.place.path, change.place.line, change.place.text), " "] : [];
    parts.push(make("p", "", ...place, change.what || change.kind, change.why ? ` (${change.why})` : ""));
    const lines = change.place ? comparison().changes[change.place.text] || [] : [];
    const tags = { old: "del", new: "ins", same: "span" };
    const items = lines.map((line) => make("li", "", ...line.map((piece) => make(tags[piece.kind], "", piece.text))));
    if (items.length) parts.push(make("ul", "lines", ...items));
  }
  find("change").replaceChildren(...parts);
}

/** Shows an artifact, from a token on; what was there stays until the new text has come. */
async function showArtifact(token) {
  showDetails();
  const { number } = state;
  const key = shown;
  find("text").setAttribute("aria-busy", "true");
  try {
    await showText(token);
  } finally {
    if (number === state.number && key === shown) find("text").removeAttribute("aria-busy");
  }
}

async function showText(token) {
  find("text").classList.toggle("stale", state.faults.length > 0);
  const row = state.rows.find((item) => keyOf(item) === shown);
  if (!row) {
    text = null;
    find("text").replaceChildren();
    return;
  }
  const query = { prefix: row.prefix, target: row.target, number: state.number };
  const isSame = text && text.key === shown;
  const top = find("text").scrollTop;
  const index = await get("text", query);
  if (!index || query.number !== state.number || keyOf(query) !== shown) return;
  const former = isSame ? text : null;
  const next = { ...index, key: shown, query, loaded: new Map() };
  const wanted = token === null ? visibleChunks(former, index) : [chunkOf(index, token)];
  await Promise.all(wanted.map((number) => load(next, number)));
  if (query.number !== state.number || keyOf(query) !== shown) return;
  if (!isSame) violations = [];
  text = next;
  find("remark").hidden = !text.remark;
  find("remark").textContent = text.remark;
  drawChunks(former);
  if (token !== null) await goTo(token);
  else if (isSame) find("text").scrollTop = top;
  clearTimeout(lintTimer);
  lintTimer = setTimeout(() => showLint(query), isSame ? LINT_MILLISECONDS : 0);
}

function chunkOf(index, token) {
  const after = index.chunks.findIndex((chunk) => chunk.token !== null && chunk.token > token);
  return Math.max(0, (after < 0 ? index.chunks.length : after) - 1);
}

function visibleChunks(former, index) {
  const numbers = former ? [...former.visible].filter((number) => number < index.chunks.length) : [0];
  return numbers.length ? numbers : [0];
}

async function load(into, number) {
  if (into.loaded.has(number) || number >= into.chunks.length) return;
  const chunk = await get("chunk", { ...into.query, chunk: number });
  if (chunk) into.loaded.set(number, chunk);
}

const watcher = new IntersectionObserver(chunkMoved, { root: find("text"), rootMargin: "1500px 0px" });

/** Puts a place for each chunk; those that are loaded are drawn, the others when they come near. */
function drawChunks(former) {
  watcher.disconnect();
  text.visible = new Set();
  const chunks = text.chunks.map((chunk, number) => {
    const element = make("div", "chunk");
    element.dataset.chunk = number;
    element.style.minHeight = `${Math.round(chunk.rows * 21)}px`;
    return element;
  });
  text.elements = chunks;
  for (const number of text.loaded.keys()) drawChunk(number);
  find("text").replaceChildren(...chunks);
  for (const element of chunks) watcher.observe(element);
  if (former && former.current !== undefined) setCurrent(former.current, false);
}

async function chunkMoved(entries) {
  for (const entry of entries) {
    const number = Number(entry.target.dataset.chunk);
    const own = text;
    if (!own || own.elements[number] !== entry.target) continue;
    if (entry.isIntersecting) {
      own.visible.add(number);
      await answered(load(own, number));
      if (own === text && own.visible.has(number) && !entry.target.firstChild) drawChunk(number);
    } else if (entry.target.firstChild && own.visible.has(number)) {
      own.visible.delete(number);
      entry.target.style.minHeight = `${entry.target.offsetHeight}px`; // the place stays, so that nothing jumps
      entry.target.replaceChildren();
    }
  }
}

function drawChunk(number) {
  const chunk = text.loaded.get(number);
  if (!chunk) return;
  const element = text.elements[number];
  const before = number ? text.loaded.get(number - 1) : null;
  let last = before ? before.sources[before.rows[before.rows.length - 1].source][0] : null;
  element.replaceChildren(
    ...chunk.rows.map((row) => {
      const line = lineElement(chunk, row, last);
      last = chunk.sources[row.source][0];
      return line;
    }),
  );
  element.style.minHeight = "";
  paint(element);
}

/** Returns a row with its source line, of which only is shown what is not that of the row before. */
function lineElement(chunk, row, before) {
  const chain = chunk.sources[row.source];
  const gutter = chain.length ? gutterLink(chain[0], row.continued ? chain[0] : before) : make("span", "source");
  const tokens = make("div", "tokens");
  tokens.dir = "auto";
  let part = 0;
  let left = row.parts.length ? row.parts[0][0] : 0;
  const chains = row.sources.flatMap(([times, source]) => Array(times).fill(chunk.sources[source]));
  row.texts.forEach((piece, index) => {
    while (!left && part + 1 < row.parts.length) left = row.parts[++part][0];
    left -= 1;
    const span = make("span", "", piece);
    span.dataset.part = row.parts[part][1];
    span.chain = chains[index];
    if (row.token !== null) span.dataset[index || row.begins ? "token" : "rest"] = row.token + index;
    tokens.append(span);
  });
  const line = make("div", "line", gutter, tokens);
  line.chain = chain;
  return line;
}

function gutterLink(source, before) {
  const isSame = before && before.path === source.path;
  const label = isSame ? (before.line === source.line ? "" : `${source.line}`) : `${source.path}:${source.line}`;
  const link = sourceLink(source.path, source.line, make("bdi", "", label), isSame ? "source" : "source path");
  link.title = `${source.path}:${source.line}`;
  link.tabIndex = -1; // the keyboard opens a source by Enter on a token
  link.setAttribute("aria-hidden", "true");
  return link;
}

/** Colours the tokens by unit and by what stays cached, and puts the notes of lint at their lines. */
function paint(within = find("text")) {
  if (!text) return;
  const change = difference();
  const { problem } = comparison();
  const cached = problem ? null : change ? change.cached : text.static;
  for (const span of within.querySelectorAll("span[data-token], span[data-rest]")) {
    const token = Number(span.dataset.token || span.dataset.rest);
    const names = [span.dataset.part];
    const isFull = text.unit > 1 && token < Math.floor(text.static / text.unit) * text.unit;
    if (text.unit > 1) names.push(Math.floor(token / text.unit) % 2 ? "odd" : "even");
    if (token >= text.static) names.push("unstable");
    else if (cached !== null) names.push(token < cached ? "cached" : "new");
    if (change && token === change.token) names.push("first");
    if (!span.textContent) names.push("within");
    if (span.textContent === "↵") names.push("end");
    if (token === text.current) names.push("current");
    if (isFull && token % text.unit === 0 && span.dataset.token) span.dataset.unit = token / text.unit;
    span.className = names.join(" ");
  }
  for (const note of within.querySelectorAll(".note")) note.remove();
  const noted = new Set();
  for (const line of within.querySelectorAll(".line")) {
    const place = line.chain.length ? `${line.chain[0].path}:${line.chain[0].line}` : "";
    if (place && !noted.has(place)) for (const item of violationsAt(place)) line.append(noteElement(item));
    noted.add(place);
  }
}

function violationsAt(place) {
  const faults = state.faults.filter((fault) => `${fault.path}:${fault.line}` === place);
  const found = violations.filter((item) => `${item.path}:${item.line}` === place);
  return [...faults.map((fault) => ({ severity: "error", code: "fault", message: fault.message })), ...found];
}

function noteElement(item) {
  return make("div", `note ${item.severity}`, `${item.severity} ${item.code}: ${item.message}`);
}

// Lint

async function showLint(query) {
  const found = await answered(get("lint", query));
  if (!found || query.number !== state.number || keyOf(query) !== shown) return;
  violations = found.items.filter(
    (item) => (!item.target || item.target === query.target) && (!item.variants.length || item.variants.includes(query.prefix)),
  );
  const lint = find("lint");
  lint.hidden = !violations.length && !found.problem;
  lint.firstElementChild.textContent = found.problem || `lint: ${count(violations.length, "finding")}`;
  lint.lastElementChild.replaceChildren(
    ...violations.map((item) =>
      make(
        "li",
        "",
        sourceLink(item.path, item.line, item.place),
        " ",
        make("span", item.severity, `${item.severity} ${item.code}`),
        `: ${item.message}. ${item.hint}`,
      ),
    ),
  );
  paint();
}

// The token under the pointer or the keyboard

/** Returns the span of a token, which must be drawn. */
function spanOf(token) {
  return find("text").querySelector(`span[data-token="${token}"]`);
}

/** Scrolls to a token. */
async function goTo(token) {
  if (!text || !text.chunks.length) return;
  if (text.tokens === null) {
    find("text").scrollTop = 0;
    return;
  }
  const wanted = Math.max(0, Math.min(token, text.tokens - 1));
  const number = chunkOf(text, wanted);
  const own = text;
  await load(own, number);
  if (own !== text) return;
  text.visible.add(number);
  if (!text.elements[number].firstChild) drawChunk(number);
  const span = spanOf(wanted);
  if (span) span.scrollIntoView({ block: wanted ? "center" : "nearest" });
  if (!wanted) find("text").scrollTop = 0;
  setCurrent(wanted, wanted > 0);
}

function setCurrent(token, isShown = true) {
  text.current = token;
  for (const span of find("text").querySelectorAll(".current")) span.classList.remove("current");
  const span = spanOf(token);
  if (!span) return;
  span.classList.add("current");
  if (isShown) describe(span);
}

/** Tells number, id, unit and source of a token. */
function describe(span) {
  const token = Number(span.dataset.token || span.dataset.rest);
  const line = span.closest(".line");
  const chunk = text.loaded.get(Number(line.parentElement.dataset.chunk));
  const facts = [];
  if (text.tokens !== null) {
    const id = chunk.ids[token - chunk.rows[0].token];
    facts.push(`token ${token.toLocaleString("en")} of ${text.tokens.toLocaleString("en")}`, `id ${id}`);
    if (text.unit > 1) {
      const full = Math.floor(text.static / text.unit);
      const unit = Math.floor(token / text.unit);
      facts.push(unit < full ? `unit ${unit.toLocaleString("en")}` : "behind the last full unit");
    }
    if (token >= text.static) facts.push("changes with what follows");
    else if (span.classList.contains("cached")) facts.push("still cached");
    else if (span.classList.contains("new")) facts.push("recomputed");
  }
  facts.push(span.dataset.part);
  const links = span.chain.flatMap((source, index) => [
    index ? ", in " : " · ",
    sourceLink(source.path, source.line, `${source.path}:${source.line}`),
  ]);
  find("token").replaceChildren(facts.join(" · "), ...links);
}

/** Opens the source line of a token in the editor. */
function openSource(span) {
  describe(span);
  const link = find("token").querySelector("a");
  if (link) link.click();
}

/** Moves the keyboard to the token above or below, at about the same place. */
function tokenBeside(span, lines) {
  const all = [...find("text").querySelectorAll(".tokens")].filter((line) => line.querySelector("[data-token]"));
  const index = all.indexOf(span.parentElement) + lines;
  const line = all[Math.max(0, Math.min(all.length - 1, index))];
  const left = span.getBoundingClientRect().left;
  const spans = [...line.querySelectorAll("[data-token]")];
  return spans.findLast((other) => other.getBoundingClientRect().left <= left + 1) || spans[0];
}

async function textKey(event) {
  if (!text || text.tokens === null || event.ctrlKey || event.altKey || event.metaKey) return;
  const change = difference();
  const span = spanOf(text.current || 0);
  const steps = { ArrowLeft: -1, ArrowRight: 1 };
  const lines = { ArrowUp: -1, ArrowDown: 1, PageUp: -15, PageDown: 15 };
  let token = null;
  if (event.key in steps) token = (text.current || 0) + steps[event.key];
  else if (event.key in lines && span) token = Number(tokenBeside(span, lines[event.key]).dataset.token);
  else if (event.key === "Home") token = 0;
  else if (event.key === "End") token = text.tokens - 1;
  else if (event.key === "c" && change && change.token !== null) token = change.token;
  else if (event.key === "Enter" && span) {
    openSource(span);
    return;
  } else return;
  event.preventDefault();
  token = Math.max(0, Math.min(text.tokens - 1, token));
  if (!spanOf(token)) await goTo(token);
  setCurrent(token);
  const current = spanOf(token);
  if (current) current.scrollIntoView({ block: "nearest" });
}

// Events of the user

find("list").addEventListener("keydown", listKey);
find("list").addEventListener("scroll", drawRows);
find("list").addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (row) choose(Number(row.dataset.index));
});
find("text").addEventListener("keydown", (event) => answered(textKey(event)));
find("text").addEventListener("focus", () => {
  if (text && text.tokens !== null) setCurrent(text.current || 0);
});
find("text").addEventListener("pointerover", (event) => {
  const span = event.target.closest(".tokens span");
  if (span && text) describe(span);
});
find("text").addEventListener("click", (event) => {
  const span = event.target.closest(".tokens span");
  if (!span || getSelection().toString()) return; // a text that is being selected is not left
  if (span.dataset.token) setCurrent(Number(span.dataset.token));
  openSource(span);
});
for (const id of ["filter", "target", "kind"]) {
  find(id).addEventListener("input", () => {
    if (state) showList();
  });
}
addEventListener("resize", () => {
  if (state) drawRows();
});

history.replaceState(null, "", location.pathname); // the token is in a cookie now
connect();

const { layers, documents } = content;
const form = at("filters").elements;
const spans = (doc) => doc.parts.flatMap(([, , , said]) => said.flatMap((one) => one ?? []));
for (const doc of documents) {
  doc.types = new Set([...spans(doc).map((span) => span[2]), ...doc.changes.flatMap((change) => change.slice(3, 5))]);
  doc.rules = new Set(doc.charges.map(([name]) => name));
  doc.text = `${doc.id} ${doc.parts.map((part) => part[2].join(" ")).join(" ")}`.toLowerCase();
}
const types = [...new Set(documents.flatMap((doc) => spans(doc).map((span) => span[2])))].sort();
const fill = (select, values) => ["", ...values].forEach((value) => select.add(new Option(value || "all", value)));
fill(form.type, types);
fill(form.rule, [...new Set(documents.flatMap((doc) => [...doc.rules]))].sort());
fill(form.kind, [...new Set(documents.flatMap((doc) => doc.kinds))]);
let fitting = documents, current = 0;
const line = (words, first, own, shared, doc) => marked(words, own, types, (mark, [start, end, type]) => {
  if (!shared.has(`${start} ${end} ${type}`)) mark.classList.add("own");
  Object.assign(mark.dataset, { document: doc.id, start: first + start, end: first + end, type });
});
const part = ([left, first, words, said], doc) => {
  const groups = new Map();
  said.forEach((own, number) => own && groups.set(JSON.stringify(own), [...(groups.get(JSON.stringify(own)) ?? []), number]));
  const keys = [...groups.keys()].map((key) => new Set(JSON.parse(key).map((span) => span.join(" "))));
  const shared = new Set([...keys[0]].filter((key) => keys.every((other) => other.has(key))));
  const differs = groups.size > 1;
  if (form.differs.checked && !differs) return [];
  const box = make("div", "", `part ${differs ? "differs" : "same"}`);
  for (const [own, numbers] of groups) {
    if (differs) box.append(make("span", numbers.map((number) => layers[number]).join(", "), "who"));
    box.append(line(words, first, JSON.parse(own), shared, doc));
  }
  return left && !form.differs.checked ? [make("p", `… ${left.toLocaleString("en")} tokens left out …`, "left"), box] : [box];
};
const table = (title, heads, rows) => {
  const box = make("div", "", "wide"), grid = make("table"), top = grid.createTHead().insertRow(), body = grid.createTBody();
  grid.createCaption().textContent = title;
  heads.forEach((head) => Object.assign(top.appendChild(make("th", head)), { scope: "col" }));
  rows.forEach((row) => row.reduce((into, cell) => (into.insertCell().append(cell), into), body.insertRow()));
  Object.assign(box, { tabIndex: 0, role: "group", ariaLabel: title }).append(grid);
  return rows.length ? [box] : [];
};
const nats = (value) => (value === null ? "hard, broken" : value.toFixed(2));
const signs = { mended: "✓ ", spoiled: "✗ ", "still wrong": "✗ " };
const draw = (number, focus) => {
  current = Math.max(0, Math.min(number, fitting.length - 1));
  [...at("list").querySelectorAll("button")].forEach((button, other) => other === current ? button.setAttribute("aria-current", "true") : button.removeAttribute("aria-current"));
  const doc = fitting[current], page = at("document");
  if (!doc) return page.replaceChildren(make("p", "No document fits these filters."));
  const gap = doc.gap === null ? "no bound" : doc.gap ? `gap ${doc.gap} nats` : "proven: no gap";
  const facts = [doc.status, gap, `${doc.tokens.toLocaleString("en")} tokens`, doc.seconds === null ? "" : `${doc.seconds} s`];
  const rows = [doc.row && `corpus ${doc.row[0]}, row ${doc.row[1]}`, `answer ${doc.answer[0]}, row ${doc.answer[1]}`];
  const changes = doc.changes.map(([, , text, before, after, verdict, alike, sure]) =>
    [text, before, after, make("span", (signs[verdict] ?? "") + verdict, verdict), alike, sure]);
  page.replaceChildren(make("h3", doc.id), make("p", facts.filter(Boolean).join(" · "), "quiet"), make("p", rows.filter(Boolean).join(" · "), "quiet"),
    ...doc.parts.flatMap((one) => part(one, doc)),
    ...table(`Changes against the model alone${doc.unlisted ? ` (${doc.unlisted} more)` : ""}`, ["words", "model alone", "now", "by gold", "same words elsewhere", "how sure"], changes),
    ...table("What the document pays, in nats", ["constraint", "model alone", "now"], doc.charges.map(([name, a, b]) => [name, nats(a), nats(b)])));
  if (focus) at("list").children[current].scrollIntoView({ block: "nearest" });
};
const filter = () => {
  const { type, rule, kind, text } = Object.fromEntries([...form].map((field) => [field.name, field.value]));
  const words = text.toLowerCase();
  fitting = documents.filter((doc) => (!type || doc.types.has(type)) && (!rule || doc.rules.has(rule)) && (!kind || doc.kinds.includes(kind)) && doc.text.includes(words));
  at("count").textContent = `${fitting.length} of ${documents.length} shown`;
  at("list").replaceChildren(...fitting.map((doc, number) => {
    const item = make("li"), button = item.appendChild(make("button", doc.id));
    button.append(make("small", doc.kinds.join(", ") || "no difference"));
    Object.assign(button, { type: "button", onclick: () => draw(number) });
    return item;
  }));
  draw(0);
};
at("filters").addEventListener("input", filter);
at("filters").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => {
  const step = { j: 1, k: -1 }[event.key];
  if (step && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.matches("input, select")) draw(current + step, true);
});
at("viewer").hidden = false;
filter();

const { questions, types } = content, answers = [];
const keys = { r: "right", w: "wrong", s: "skipped", u: "undo" };
const verdicts = [...at("verdicts").children], text = at("copy").querySelector("textarea");
let safe = 0;
const file = () => `${JSON.stringify({ run: content.run, by: at("by").value.trim(), answers }, null, 1)}\n`;
const choosing = () => !at("truths").hidden;
const quiet = (words) => (words.length ? [make("p", words.join(" "), "quiet")] : []);
const show = (group) => { for (const one of [at("verdicts"), at("truths")]) one.hidden = one !== group; };
const copied = () => { if (at("copy").open) text.value = file(); };
const draw = () => {
  const asked = questions[answers.length], count = (verdict) => answers.filter((one) => one.verdict === verdict).length;
  const counts = [[count("wrong"), "wrong"], [count("skipped"), "skipped"]].filter(([number]) => number);
  at("tally").textContent = [`${answers.length} of ${questions.length} answered`, ...counts.map((one) => one.join(" "))].join(", ");
  Object.assign(at("progress"), { max: questions.length, value: answers.length });
  show(at("verdicts"));
  for (const button of verdicts) button.disabled = button.dataset.verdict === "undo" ? !answers.length : !asked;
  copied();
  if (!asked) return at("question").replaceChildren(make("p", "That is all. Download the answers now."));
  const passage = make("p");
  passage.append(marked(asked.words, asked.spans, types));
  at("question").replaceChildren(...quiet(asked.before), passage, ...quiet(asked.after), make("p", asked.facts.join(" · "), "quiet facts"));
  at("question").querySelector("mark")?.scrollIntoView({ block: "nearest" });
};
const answer = (verdict, rightType = null, noEntity = false) => {
  answers.push({ task: questions[answers.length].task, verdict, right_type: rightType, no_entity: noEntity });
  draw();
};
const truths = [
  ...types.map((type, number) => ({ key: number < 9 ? `${number + 1}` : "", name: type, says: [type] })),
  { key: "0", name: "no entity there", says: [null, true] },
  { key: "Escape", name: "back" },
  { key: "Enter", name: "other bounds, or I do not say", says: [] },
].map(({ key, name, says }) => {
  const button = make("button", `${name} `);
  if (key) button.append(make("kbd", key.replace("Escape", "Esc")));
  const leave = () => {
    at("question").focus();
    if (says) answer("wrong", ...says);
    else draw();
  };
  Object.assign(button, { type: "button", onclick: leave });
  at("truths").append(button);
  return { key, name, button };
});
const choose = () => {
  for (const { name, button } of truths) button.disabled = name === questions[answers.length].type;
  show(at("truths"));
  truths.at(-1).button.focus();
};
const take = (verdict) => {
  if (verdict === "undo") {
    answers.pop();
    safe = Math.min(safe, answers.length);
    return draw();
  }
  return verdict === "wrong" && content.typed ? choose() : answer(verdict);
};
at("verdicts").addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (button) take(button.dataset.verdict);
});
document.addEventListener("keydown", (event) => {
  if (event.repeat && event.target.matches("button")) event.preventDefault();
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.matches("input, textarea")) return;
  if (choosing()) {
    if (event.key !== "Enter") truths.find(({ key }) => key === event.key)?.button.click();
  } else verdicts.find((button) => button.dataset.verdict === keys[event.key.toLowerCase()])?.click();
});
at("save").addEventListener("click", () => {
  const link = Object.assign(make("a"), { href: URL.createObjectURL(new Blob([file()], { type: "application/json" })), download: content.file });
  link.click();
  URL.revokeObjectURL(link.href);
  safe = answers.length;
});
at("copy").addEventListener("toggle", copied);
at("by").addEventListener("input", copied);
text.addEventListener("focus", () => text.select());
addEventListener("beforeunload", (event) => { if (answers.length > safe) event.preventDefault(); });
at("review").hidden = false;
draw();

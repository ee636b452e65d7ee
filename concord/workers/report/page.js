const at = (id) => document.getElementById(id);
const make = (tag, textContent = "", className = "") => Object.assign(document.createElement(tag), { textContent, className });
const bytes = Uint8Array.from(atob(at("data").textContent), (letter) => letter.charCodeAt(0));
const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
const content = await new Response(plain).json();
const marked = (words, spans, types, dress = () => {}) => {
  const text = make("span", "", "words");
  let place = 0;
  for (const span of spans) {
    const [start, end, type] = span;
    text.append(words.slice(place, start).join(" ") + (start > place ? " " : ""));
    const mark = make("mark", words.slice(start, end).join(" "), `t${types.indexOf(type) % 8}`);
    mark.append(make("b", type));
    dress(mark, span);
    text.append(mark, " ");
    place = end;
  }
  text.append(words.slice(place).join(" "));
  return text;
};

// A button on each example that copies it; of a session at a terminal the commands alone.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    const text = block.textContent;
    const typed = text.split("\n").filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    const button = document.createElement("button");
    Object.assign(button, { className: "copy", type: "button", textContent: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(typed.length ? typed.join("\n") : text);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.querySelector("pre").prepend(button);
  }
});

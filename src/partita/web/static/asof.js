// As of when the lake is shown, asked every few seconds. The page hears `partita:newer` when there is something newer.
// A server that doesn't answer is told there too; `partita:lost` has it looked at now.
(() => {
  "use strict";
  const EVERY = 5000, PATIENCE = 10000;
  const place = document.getElementById("asof");
  const moment = () => place.querySelector("[data-as-of]");
  let asOf = moment().dataset.asOf, shown = null, isLost = false, next = null;

  async function look() {
    try {
      const answer = await fetch("/asof", { signal: AbortSignal.timeout(PATIENCE) });
      const text = await answer.text();
      const isPlain = (answer.headers.get("content-type") || "").startsWith("text/plain");
      if (answer.ok) show(text);
      else complain(isPlain ? text : `the server answers with ${answer.status}`);
    } catch {
      complain("the server doesn't answer");
    }
    clearTimeout(next);
    next = setTimeout(look, EVERY);
  }
  // It is read aloud when it changes, and so it is touched only then.
  function show(html) {
    if (html !== shown) place.innerHTML = shown = html;
    const isNewer = isLost || moment().dataset.asOf !== asOf;
    asOf = moment().dataset.asOf;
    isLost = false;
    if (isNewer) document.body.dispatchEvent(new Event("partita:newer", { bubbles: true }));
  }
  function complain(text) {
    isLost = true;
    if (text === shown) return;
    shown = text;
    const problem = document.createElement("span");
    problem.className = "problem";
    problem.textContent = text;
    place.replaceChildren(problem, " ", moment());
  }

  document.addEventListener("partita:lost", look);
  next = setTimeout(look, EVERY);
})();

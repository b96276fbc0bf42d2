// Poll the time of the snapshot that the server shows, and show it in the head of the page. A newer snapshot dispatches
// `partita:newer`; a server that does not answer is shown as a problem. The event `partita:lost` polls at once.
(() => {
  "use strict";
  const POLL_MILLIS = 5000, TIMEOUT_MILLIS = 10000;
  const element = document.getElementById("asof");
  const asOfElement = () => element.querySelector("[data-as-of]");
  let asOf = asOfElement().dataset.asOf, shownText = null, isLost = false, timer = null;

  async function poll() {
    try {
      const response = await fetch("/asof", { signal: AbortSignal.timeout(TIMEOUT_MILLIS) });
      const text = await response.text();
      const isPlain = (response.headers.get("content-type") || "").startsWith("text/plain");
      if (response.ok) show(text);
      else showProblem(isPlain ? text : `the server answers with status ${response.status}`);
    } catch {
      showProblem("the server doesn't answer");
    }
    clearTimeout(timer);
    timer = setTimeout(poll, POLL_MILLIS);
  }
  // Screen readers announce every change of the element, so it is changed only if the text differs.
  function show(html) {
    if (html !== shownText) element.innerHTML = shownText = html;
    const isNewer = isLost || asOfElement().dataset.asOf !== asOf;
    asOf = asOfElement().dataset.asOf;
    isLost = false;
    if (isNewer) document.body.dispatchEvent(new Event("partita:newer", { bubbles: true }));
  }
  function showProblem(text) {
    isLost = true;
    if (text === shownText) return;
    shownText = text;
    const problem = document.createElement("span");
    problem.className = "problem";
    problem.textContent = text;
    element.replaceChildren(problem, " ", asOfElement());
  }

  document.addEventListener("partita:lost", poll);
  timer = setTimeout(poll, POLL_MILLIS);
})();

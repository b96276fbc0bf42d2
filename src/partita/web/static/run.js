// The progress of a run: its events as server-sent events, from the first one on, and at the end the outcome as HTML.
(() => {
  "use strict";
  const run = document.getElementById("run");
  if (!run) return;
  const log = document.getElementById("log");
  const bar = document.getElementById("bar");
  const progressText = document.getElementById("progress-text");
  const cancel = document.getElementById("cancel");
  const MAX_LOG_LINES = 500, ANNOUNCE_MILLIS = 1000;
  const STATES = { starting: "starting", begun: "running", stopping: "stopping", result: "ended", refused: "refused" };
  let state = "starting", counts = null, lastUpdate = 0, timer = null;

  // Update the text at most once a second, because screen readers announce every change.
  function showProgress() {
    clearTimeout(timer);
    const delay = lastUpdate + ANNOUNCE_MILLIS - Date.now();
    if (delay > 0) return void (timer = setTimeout(showProgress, delay));
    lastUpdate = Date.now();
    const parts = [];
    if (counts) {
      parts.push(`${counts.done.toLocaleString("en")} of ${counts.total.toLocaleString("en")} partitions`);
      for (const name of ["failed", "skipped", "cancelled"]) if (counts[name]) parts.push(`${counts[name].toLocaleString("en")} ${name}`);
    }
    progressText.textContent = parts.length ? `${state}: ${parts.join(", ")}` : state;
  }

  function addLogLine(event) {
    const item = document.createElement("li");
    item.textContent = event.text;
    item.className = ["failed", "refused"].includes(event.event) ? "error" : "";
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.append(item);
    while (log.children.length > MAX_LOG_LINES) log.firstChild.remove();
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  }

  const stream = new EventSource("/run/events");
  stream.onmessage = (message) => {
    const event = JSON.parse(message.data);
    // A run that is stopping keeps this state until its end, even if its first event comes later.
    if (STATES[event.event] && !(state === "stopping" && event.event === "begun")) state = STATES[event.event];
    if (event.total !== undefined) {
      counts = event;
      bar.max = event.total;
      bar.value = event.done;
    }
    if (cancel && event.event === "stopping") cancel.disabled = true;
    if (event.text) addLogLine(event);
    showProgress();
  };
  stream.addEventListener("over", (message) => {
    stream.close();
    const end = JSON.parse(message.data);
    state = run.dataset.state = end.state;
    if (cancel) cancel.disabled = true;
    lastUpdate = 0;
    showProgress();
    document.getElementById("outcome").innerHTML = end.html;
    // The head of the page shows whether a run is in progress; this updates it at once.
    document.dispatchEvent(new Event("partita:lost"));
  });
})();

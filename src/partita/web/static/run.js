// A run as it goes: its events by a stream, from the first on, each as text. The server draws how it ended.
(() => {
  "use strict";
  const run = document.getElementById("run");
  if (!run) return;
  const log = document.getElementById("log");
  const bar = document.getElementById("bar");
  const said = document.getElementById("said");
  const cancel = document.getElementById("cancel");
  const SHOWN = 500, SAY_EVERY = 1000;
  const words = { starting: "starting", begun: "running", stopping: "stopping", result: "ended", refused: "refused" };
  let state = "starting", counts = null, last = 0, waiting = null;

  // A screen reader hears at most one sentence in a second.
  function say() {
    clearTimeout(waiting);
    const rest = last + SAY_EVERY - Date.now();
    if (rest > 0) return void (waiting = setTimeout(say, rest));
    last = Date.now();
    const parts = [];
    if (counts) {
      parts.push(`${counts.done.toLocaleString("en")} of ${counts.total.toLocaleString("en")} partitions`);
      for (const name of ["failed", "skipped", "cancelled"]) if (counts[name]) parts.push(`${counts[name].toLocaleString("en")} ${name}`);
    }
    said.textContent = parts.length ? `${state}: ${parts.join(", ")}` : state;
  }

  function add(event) {
    const item = document.createElement("li");
    item.textContent = event.text;
    item.className = ["failed", "refused"].includes(event.event) ? "error" : "";
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.append(item);
    while (log.children.length > SHOWN) log.firstChild.remove();
    if (atEnd) log.scrollTop = log.scrollHeight;
  }

  const stream = new EventSource("/run/events");
  stream.onmessage = (message) => {
    const event = JSON.parse(message.data);
    // A run that was told to stop stays so until its end, whatever it still says.
    if (words[event.event] && !(state === "stopping" && event.event === "begun")) state = words[event.event];
    if (event.total !== undefined) {
      counts = event;
      bar.max = event.total;
      bar.value = event.done;
    }
    if (cancel && event.event === "stopping") cancel.disabled = true;
    if (event.text) add(event);
    say();
  };
  stream.addEventListener("over", (message) => {
    stream.close();
    const end = JSON.parse(message.data);
    state = run.dataset.state = end.state;
    if (cancel) cancel.disabled = true;
    last = 0;
    say();
    document.getElementById("outcome").innerHTML = end.html;
    // The head of the page says that a run is at work; it is looked at now.
    document.dispatchEvent(new Event("partita:lost"));
  });
})();

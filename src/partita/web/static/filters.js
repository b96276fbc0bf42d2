// The filters of an asset: a box that is ticked counts at once, and the URL gets no more than it needs.
(() => {
  "use strict";
  const form = document.getElementById("filters");
  form.addEventListener("submit", () => {
    const query = new URLSearchParams(location.search);
    for (const name of ["view", "selected"]) form.elements[name].value = query.get(name) || "";
    for (const field of form.querySelectorAll("input:not([type=checkbox])")) field.disabled = !field.value;
  });
  // The page comes anew, and the box that was ticked has the focus again.
  const FOCUS = "partita:ticked";
  form.addEventListener("change", ({ target }) => {
    if (target.type !== "checkbox") return;
    sessionStorage.setItem(FOCUS, JSON.stringify([target.name, target.value]));
    form.requestSubmit();
  });
  const [name, value] = JSON.parse(sessionStorage.getItem(FOCUS) || "[]");
  sessionStorage.removeItem(FOCUS);
  [...form.querySelectorAll("input[type=checkbox]")].find((box) => box.name === name && box.value === value)?.focus({ preventScroll: true });
  window.addEventListener("pageshow", () => {
    for (const field of form.querySelectorAll("input")) field.disabled = false;
  });
})();

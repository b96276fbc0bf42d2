// The filters of an asset: a change of a checkbox submits the form, and empty fields stay out of the URL.
(() => {
  "use strict";
  const form = document.getElementById("filters");
  form.addEventListener("submit", () => {
    const query = new URLSearchParams(location.search);
    for (const name of ["view", "selected"]) form.elements[name].value = query.get(name) || "";
    for (const field of form.querySelectorAll("input:not([type=checkbox])")) field.disabled = !field.value;
  });
  // The page is loaded again, and the checkbox that was changed gets the focus back.
  const FOCUS_KEY = "partita:ticked";
  form.addEventListener("change", ({ target }) => {
    if (target.type !== "checkbox") return;
    sessionStorage.setItem(FOCUS_KEY, JSON.stringify([target.name, target.value]));
    form.requestSubmit();
  });
  const [name, value] = JSON.parse(sessionStorage.getItem(FOCUS_KEY) || "[]");
  sessionStorage.removeItem(FOCUS_KEY);
  [...form.querySelectorAll("input[type=checkbox]")].find((box) => box.name === name && box.value === value)?.focus({ preventScroll: true });
  window.addEventListener("pageshow", () => {
    for (const field of form.querySelectorAll("input")) field.disabled = false;
  });
})();

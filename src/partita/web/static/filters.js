// The filters of an asset: a box that is ticked counts at once, and the URL gets no more than it needs.
(() => {
  "use strict";
  const form = document.getElementById("filters");
  form.addEventListener("submit", () => {
    const query = new URLSearchParams(location.search);
    for (const name of ["view", "selected"]) form.elements[name].value = query.get(name) || "";
    for (const field of form.querySelectorAll("input:not([type=checkbox])")) field.disabled = !field.value;
  });
  form.addEventListener("change", (event) => event.target.type === "checkbox" && form.requestSubmit());
  window.addEventListener("pageshow", () => {
    for (const field of form.querySelectorAll("input")) field.disabled = false;
  });
})();

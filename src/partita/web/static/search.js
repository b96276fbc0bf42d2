// What is searched for stands in the URL as it is typed: a reload keeps it.
(() => {
  "use strict";
  const field = document.getElementById("q");
  field.addEventListener("input", () => {
    const query = field.value ? `?${new URLSearchParams({ q: field.value })}` : "";
    history.replaceState(null, "", location.pathname + query);
  });
})();

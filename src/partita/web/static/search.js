// Keep the search text in the URL while it is typed, so that a reload keeps it.
(() => {
  "use strict";
  const field = document.getElementById("q");
  field.addEventListener("input", () => {
    const query = field.value ? `?${new URLSearchParams({ q: field.value })}` : "";
    history.replaceState(null, "", location.pathname + query);
  });
})();

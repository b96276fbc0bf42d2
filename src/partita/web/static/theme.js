// Light or dark: the system's choice, unless the button was pressed. Loaded before the page is drawn.
(() => {
  "use strict";
  const root = document.documentElement;
  const kept = localStorage.getItem("partita-theme");
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#theme")) return;
    const isDark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("partita-theme", root.dataset.theme);
    document.dispatchEvent(new Event("partita:theme"));
  });
})();

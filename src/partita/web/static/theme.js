// The light or dark theme: that of the system, unless the user chose one. Loaded before the page is drawn.
(() => {
  "use strict";
  const root = document.documentElement;
  const storedTheme = localStorage.getItem("partita-theme");
  if (storedTheme === "light" || storedTheme === "dark") root.dataset.theme = storedTheme;
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
